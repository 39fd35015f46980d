package main

import (
	"cmp"
	"fmt"
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// commentRule limits how often words or phrases may stand in comments, per
// 1,000 words.
type commentRule struct {
	label   string
	phrases []string
	limit   float64
	atLeast bool // the limit is the smallest rate, not the largest
}

var commentRules = []commentRule{
	{label: "what", phrases: []string{"what"}, limit: 3},
	{label: "who", phrases: []string{"who", "whoever", "nobody", "somebody", "someone", "anybody"}, limit: 1},
	{label: "where", phrases: []string{"where"}, limit: 2},
	{label: "if/when", phrases: []string{"if", "when"}, limit: 12, atLeast: true},
	{label: "dialect", phrases: []string{"anew", "goes on", "go on", "comes again", "come again", "beside", "ahead of"}, limit: 0.3},
}

// commentStats counts the comments of a package or of the whole repository.
type commentStats struct {
	words int
	hits  []int // by rule
	lines [][]string
}

func newCommentStats() *commentStats {
	return &commentStats{hits: make([]int, len(commentRules)), lines: make([][]string, len(commentRules))}
}

func (s *commentStats) add(o *commentStats) {
	s.words += o.words
	for i := range s.hits {
		s.hits[i] += o.hits[i]
		s.lines[i] = append(s.lines[i], o.lines[i]...)
	}
}

func (s *commentStats) rate(rule int) float64 {
	return float64(s.hits[rule]) * 1000 / float64(max(s.words, 1))
}

func (s *commentStats) breaks(rule int) bool {
	if commentRules[rule].atLeast {
		return s.words > 0 && s.rate(rule) < commentRules[rule].limit
	}
	return s.rate(rule) > commentRules[rule].limit
}

func (s *commentStats) String() string {
	text := fmt.Sprintf("%6d words", s.words)
	for i, rule := range commentRules {
		text += fmt.Sprintf("  %s %.1f", rule.label, s.rate(i))
	}
	return text
}

// wordPattern drops the part of a word after an apostrophe.
var wordPattern = regexp.MustCompile(`([A-Za-z]+)(?:['’][A-Za-z]+)?`)

// directivePattern matches comments that are for tools, such as //go:embed.
var directivePattern = regexp.MustCompile(`^//(?:[a-z0-9]+:[a-z0-9]|nolint\b|line |export |extern )`)

// generatedPattern is that of https://go.dev/s/generatedcode.
var generatedPattern = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// countComments counts the comments of one Go file. A phrase also counts if a line
// break divides it.
func countComments(name string, source []byte) *commentStats {
	stats := newCommentStats()
	fset := token.NewFileSet()
	file := fset.AddFile(name, -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	var words []string // of the comments since the last other token
	var lines []int
	flush := func() {
		stats.words += len(words)
		for i, rule := range commentRules {
			for _, phrase := range rule.phrases {
				parts := strings.Fields(phrase)
				for at := range len(words) - len(parts) + 1 {
					if slices.Equal(words[at:at+len(parts)], parts) {
						stats.hits[i]++
						stats.lines[i] = append(stats.lines[i], fmt.Sprintf("%s:%d: %s", name, lines[at], phrase))
					}
				}
			}
		}
		words, lines = nil, nil
	}
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			flush()
			return stats
		}
		if tok != token.COMMENT {
			if tok != token.SEMICOLON || literal != "\n" { // inserted before a comment at the end of a line
				flush()
			}
			continue
		}
		if directivePattern.MatchString(literal) {
			continue
		}
		for i, line := range strings.Split(literal, "\n") {
			for _, match := range wordPattern.FindAllStringSubmatch(line, -1) {
				words = append(words, strings.ToLower(match[1]))
				lines = append(lines, file.Line(pos)+i)
			}
		}
	}
}

// repositoryFiles lists the non-test Go files that are in the repository or
// about to be, without generated files and test data.
func repositoryFiles(dir string) (names []string, err error) {
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.go")
	list.Dir = dir
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the files of the repository: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		if name != "" && !strings.HasSuffix(name, "_test.go") && !slices.Contains(strings.Split(name, "/"), "testdata") {
			names = append(names, name)
		}
	}
	return names, nil
}

// countRepository counts the comments of each package, by its directory.
func countRepository(dir string) (map[string]*commentStats, error) {
	names, err := repositoryFiles(dir)
	if err != nil {
		return nil, err
	}
	byPackage := map[string]*commentStats{}
	for _, name := range names {
		source, err := os.ReadFile(filepath.Join(dir, name))
		if os.IsNotExist(err) {
			continue // deleted and not yet committed
		}
		if err != nil {
			return nil, err
		}
		if generatedPattern.Match(source) {
			continue
		}
		pkg := path.Dir(name)
		if byPackage[pkg] == nil {
			byPackage[pkg] = newCommentStats()
		}
		byPackage[pkg].add(countComments(name, source))
	}
	return byPackage, nil
}

// checkComments compares the comments of the whole repository with the limits.
// For each limit that is broken, it prints the packages that contribute most, and
// some of their lines.
func checkComments(p printer, list bool) (passed bool, err error) {
	const worstPackages, worstLines = 5, 4
	byPackage, err := countRepository(p.root)
	if err != nil {
		return false, err
	}
	total := newCommentStats()
	dirs := slices.Sorted(maps.Keys(byPackage))
	for _, dir := range dirs {
		total.add(byPackage[dir])
		if list {
			p.printf("%-30s %v\n", dir, byPackage[dir])
		}
	}
	p.printf("comments: %v\n", total)
	passed = true
	for i, rule := range commentRules {
		if !total.breaks(i) {
			continue
		}
		passed = false
		bound := "most"
		if rule.atLeast {
			bound = "least"
		}
		p.printf("comments: %s stands %.1f times in 1,000 words, at %s %.1f is allowed (%s)\n",
			rule.label, total.rate(i), bound, rule.limit, strings.Join(rule.phrases, ", "))
		// The worst packages are those that contribute most to the excess.
		excess := func(dir string) float64 {
			s := byPackage[dir]
			e := float64(s.hits[i]) - rule.limit*float64(s.words)/1000
			if rule.atLeast {
				return -e
			}
			return e
		}
		worst := slices.SortedStableFunc(slices.Values(dirs), func(a, b string) int { return cmp.Compare(excess(b), excess(a)) })
		for _, dir := range worst[:min(len(worst), worstPackages)] {
			if excess(dir) <= 0 {
				break
			}
			p.printf("  %s: %.1f in %d words\n", dir, byPackage[dir].rate(i), byPackage[dir].words)
			if !rule.atLeast {
				for _, line := range byPackage[dir].lines[i][:min(worstLines, len(byPackage[dir].lines[i]))] {
					p.printf("    %s\n", line)
				}
			}
		}
	}
	return passed, nil
}
