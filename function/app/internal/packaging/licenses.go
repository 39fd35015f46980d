package packaging

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"sort"
	"strings"
)

// Names of the files in the package.
const (
	licenseFile = "THIRD_PARTY_LICENSES.txt"
	sbomFile    = "sbom.spdx.json"
)

// component is a module in the binary, or the standard library.
type component struct {
	path, version, sum string
	replaced           bool // by a directory, which has no version
	dir                string
	licenses           []licenseText // the licence first, then notices and patents
}

type licenseText struct{ name, text string }

// describe writes the licence texts and the list of the modules in a binary to dir.
// It fails if a module has no licence text; the app itself needs none.
func (t *toolchain) describe(binary, dir string) error {
	info, err := t.buildInfo(binary)
	if err != nil {
		return err
	}
	components, err := t.linked(info)
	if err != nil {
		return err
	}
	texts, err := licenseTexts(t.root)
	if err != nil && !errors.Is(err, errNoLicense) {
		return err
	}
	list, err := spdx(binary, info, texts, components)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, licenseFile), joinTexts(components), 0o644),
		os.WriteFile(filepath.Join(dir, sbomFile), list, 0o644),
	)
}

// buildInfo reads the modules in a binary. Package debug/buildinfo would do the same, at
// the price of its readers of every format in the binary of each app.
func (t *toolchain) buildInfo(binary string) (*debug.BuildInfo, error) {
	out, err := t.run("version", "-m", "-json", binary)
	if err != nil {
		return nil, err
	}
	info := &debug.BuildInfo{}
	if err := json.Unmarshal(out, info); err != nil {
		return nil, fmt.Errorf("go version: %w", err)
	}
	return info, nil
}

// linked returns the components of the binary with their licence texts, by path.
func (t *toolchain) linked(info *debug.BuildInfo) ([]component, error) {
	root, err := t.run("env", "GOROOT")
	if err != nil {
		return nil, err
	}
	components := []component{{path: "std", version: info.GoVersion, dir: strings.TrimSpace(string(root))}}
	directories, err := t.moduleDirs(info.Deps)
	if err != nil {
		return nil, err
	}
	for _, m := range info.Deps {
		c := component{path: m.Path, version: m.Version, sum: m.Sum, dir: directories[m.Path]}
		switch r := m.Replace; {
		case r == nil:
		case r.Version == "" || r.Version == "(devel)":
			c.replaced = true
		default:
			c.path, c.version, c.sum = r.Path, r.Version, r.Sum
		}
		components = append(components, c)
	}
	// slices.SortFunc would be compiled for this type: 16 kB of the app with dev.
	sort.Slice(components, func(i, j int) bool { return components[i].path < components[j].path })
	for i := range components {
		if components[i].licenses, err = licenseTexts(components[i].dir); err != nil {
			return nil, fmt.Errorf("module %s: %w", components[i].path, err)
		}
	}
	return components, nil
}

// moduleDirs returns the directories that hold the source of modules, by path.
func (t *toolchain) moduleDirs(modules []*debug.Module) (map[string]string, error) {
	args := []string{"list", "-mod=readonly", "-m", "-json=Path,Dir,Error"}
	for _, m := range modules {
		args = append(args, m.Path)
	}
	out, err := t.run(args...)
	if err != nil {
		return nil, err
	}
	directories := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct{ Path, Dir string }
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			return directories, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if m.Dir == "" {
			return nil, fmt.Errorf("the source of module %s is not in the module cache: run go mod download", m.Path)
		}
		directories[m.Path] = m.Dir
	}
}

var (
	licenseName = regexp.MustCompile(`(?i)^(un)?licen[cs]es?([-.].*)?$|^copying([-.].*)?$`)
	noticeName  = regexp.MustCompile(`(?i)^(notice|patents|copyright|third[-_]party.*)([-.](txt|md))?$`)

	errNoLicense = errors.New("no licence text")
)

// licenseTexts reads the licence texts in the root of a module.
func licenseTexts(dir string) ([]licenseText, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var found []licenseText
	for _, pattern := range []*regexp.Regexp{licenseName, noticeName} {
		for _, entry := range entries {
			if !entry.Type().IsRegular() || !pattern.MatchString(entry.Name()) {
				continue
			}
			b, err := os.ReadFile(filepath.Join(dir, entry.Name()))
			if err != nil {
				return nil, err
			}
			found = append(found, licenseText{entry.Name(), string(b)})
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%w in %s", errNoLicense, dir)
		}
	}
	return found, nil
}

// joinTexts joins all licence texts.
func joinTexts(components []component) []byte {
	var out bytes.Buffer
	out.WriteString("The executable contains the following modules, under these licences.\n")
	for _, c := range components {
		for _, l := range c.licenses {
			text := strings.TrimSpace(strings.ReplaceAll(l.text, "\r\n", "\n"))
			fmt.Fprintf(&out, "\n%s\n%s %s: %s\n%[1]s\n\n%[5]s\n", strings.Repeat("=", 80), c.path, c.version, l.name, text)
		}
	}
	return out.Bytes()
}

// identifiers are SPDX identifiers by the text that each licence begins with. The
// first that occurs in a text counts, since some texts quote other licences.
var identifiers = []struct{ phrase, id string }{
	{"Apache License", "Apache-2.0"},
	{"Mozilla Public License", "MPL-2.0"},
	{"Permission is hereby granted, free of charge", "MIT"},
	{"Redistribution and use in source and binary forms", "BSD-3-Clause"},
	{"Permission to use, copy, modify, and", "ISC"},
	{"This is free and unencumbered software", "Unlicense"},
}

var space = regexp.MustCompile(`\s+`)

// identify returns the SPDX identifier of a module's licence, or NOASSERTION if the
// module has no licence or an unknown one.
func identify(licenses []licenseText) string {
	if len(licenses) == 0 {
		return noAssertion
	}
	text := space.ReplaceAllString(licenses[0].text, " ")
	id, first := noAssertion, len(text)
	for _, known := range identifiers {
		if i := strings.Index(text, known.phrase); i >= 0 && i < first {
			id, first = known.id, i
		}
	}
	if id == "BSD-3-Clause" && !strings.Contains(text, "endorse or promote products") {
		return "BSD-2-Clause"
	}
	return id
}
