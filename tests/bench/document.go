package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"halley/tests/bench/report"
)

// documentFile is the document in its directory.
const documentFile = "performance.md"

// writeDocument writes performance.md into a directory, and its pictures into images.
func (s *suite) writeDocument(directory string, sections []report.Section) error {
	var b bytes.Buffer
	if err := s.writeHead(&b, sections); err != nil {
		return err
	}
	for _, section := range sections {
		if err := writeSection(&b, directory, section); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(directory, documentFile), b.Bytes(), 0o644)
}

// rewriteSections writes sections into the document in place of those with their titles, or at its end.
// Each says when and where it was measured, as the head is about the whole.
func (s *suite) rewriteSections(directory string, sections []report.Section) error {
	file := filepath.Join(directory, documentFile)
	document, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text := string(document)
	for _, section := range sections {
		section.Text = fmt.Sprintf("(%s, commit %s, %d rounds on %s.) %s", time.Now().UTC().Format(time.DateOnly), s.commit, s.rounds, s.machine(), section.Text)
		var b bytes.Buffer
		if err := writeSection(&b, directory, section); err != nil {
			return err
		}
		text = replaceSection(text, section.Title, b.String())
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// replaceSection puts a section in place of the one with its title, or at the end of the document.
func replaceSection(document, title, section string) string {
	head, tail, found := strings.Cut(document, "\n## "+title+"\n")
	if !found {
		return document + section
	}
	if _, following, ok := strings.Cut(tail, "\n## "); ok {
		return head + section + "\n## " + following
	}
	return head + section
}

// writeSection writes a section, and its pictures into the images of the directory.
func writeSection(b *bytes.Buffer, directory string, section report.Section) error {
	fmt.Fprintf(b, "\n## %s\n\n", section.Title)
	if section.Text != "" {
		fmt.Fprintf(b, "%s\n\n", strings.TrimSpace(section.Text))
	}
	if len(section.Rows) > 0 {
		if err := section.WriteTable(b, columns); err != nil {
			return err
		}
	}
	pictures := filepath.Join(directory, "images")
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		return err
	}
	for _, chart := range section.Chart {
		name := "performance-" + chart.File + ".svg"
		fmt.Fprintf(b, "\n![%s](images/%s)\n", chart.Title, name)
		if err := os.WriteFile(filepath.Join(pictures, name), []byte(chart.SVG()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeHead writes the machine, the versions, the method and the number of targets
// that are met.
func (s *suite) writeHead(b *bytes.Buffer, sections []report.Section) error {
	goVersion, err := output(s.ctx, s.root, "go", "env", "GOVERSION")
	if err != nil {
		return err
	}
	versions := []string{goVersion, "azcosmos 1.5.0", "@azure/cosmos " + javaScriptVersion, "azure-cosmos 4.81.0 (Java)"}
	if node, err := output(s.ctx, "", "node", "--version"); err == nil {
		versions = append(versions, "Node "+node)
	}
	met, goals := 0, 0
	for _, section := range sections {
		for _, row := range section.Rows {
			for _, goal := range row.Goals {
				if goals++; goal.Met() {
					met++
				}
			}
		}
	}
	experiment := "The packaged build sets no GOEXPERIMENT, so the plain build is the same."
	if s.experiment != "" {
		experiment = "Halley is built as `package` builds it, with GOEXPERIMENT=" + s.experiment + "; the plain build has a column of its own."
	}
	placement := "Processes are not bound to processors."
	if s.pinned {
		placement = "The service is bound to one processor and the contender to another."
	}
	fmt.Fprintf(b, "# Performance\n\n`scripts/bench` wrote this page on %s, at commit %s. %d of %d targets are met.\n\n", time.Now().UTC().Format(time.DateOnly), s.commit, met, goals)
	fmt.Fprintf(b, "- Machine: %s.\n- Versions: %s.\n", s.machine(), strings.Join(versions, ", "))
	fmt.Fprintf(b, "- Method: each contender is a process of its own. %s Contenders take turns; figures are medians of %d rounds, and ratios are the medians of the ratios within each round. "+
		"The service speaks TLS 1.3 and HTTP/1.1 over loopback. Its pages are built once, so that the client is what is measured; sections that say so use the embedded account. %s\n", placement, s.rounds, experiment)
	for _, reason := range s.missing {
		fmt.Fprintf(b, "- Not measured: %s\n", reason)
	}
	return nil
}

// unzip writes the files of an archive into a directory.
func unzip(archive, directory string) error {
	files, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer files.Close()
	return os.CopyFS(directory, files)
}
