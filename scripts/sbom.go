//go:build ignore

// Sbom writes two files about the modules that are linked into a binary: their
// licence texts, and a list of them in SPDX 2.3
// (https://spdx.github.io/spdx-spec/v2.3/). The same binary always gives the same
// files. Sbom fails if a module has no licence text.
//
//	go run scripts/sbom.go BINARY DIRECTORY
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"unicode"
)

// Names of the files in the package.
const (
	licenseFile = "THIRD_PARTY_LICENSES.txt"
	sbomFile    = "sbom.spdx.json"
)

func main() {
	if len(os.Args) != 3 {
		fail(errors.New("give a binary and a directory to write to"))
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "sbom:", err)
	os.Exit(1)
}

// component is a module in the binary, or the standard library.
type component struct {
	path, version, sum string
	dir                string
	licenses           []licenseText // the licence first, then notices and patents
}

type licenseText struct{ name, text string }

func write(binary, dir string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	components, err := linked(info)
	if err != nil {
		return err
	}
	own, err := licenseTexts(".")
	if err != nil {
		return fmt.Errorf("the repository: %w", err)
	}
	list, err := spdx(binary, info, own, components)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, licenseFile), texts(components), 0o644),
		os.WriteFile(filepath.Join(dir, sbomFile), list, 0o644),
	)
}

// linked returns the components of the binary with their licence texts, by path.
func linked(info *debug.BuildInfo) ([]component, error) {
	root, err := goCommand("env", "GOROOT")
	if err != nil {
		return nil, err
	}
	components := []component{{path: "std", version: info.GoVersion, dir: strings.TrimSpace(root)}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		out, err := goCommand("list", "-m", "-f", "{{.Version}} {{.Dir}}", m.Path)
		if err != nil {
			return nil, err
		}
		version, dir, _ := strings.Cut(strings.TrimSpace(out), " ")
		if version != m.Version || dir == "" {
			return nil, fmt.Errorf("module %s is %s in the binary, but %q in go.mod, in directory %q", m.Path, m.Version, version, dir)
		}
		components = append(components, component{path: m.Path, version: m.Version, sum: m.Sum, dir: dir})
	}
	slices.SortFunc(components, func(a, b component) int { return strings.Compare(a.path, b.path) })
	for i := range components {
		if components[i].licenses, err = licenseTexts(components[i].dir); err != nil {
			return nil, fmt.Errorf("module %s: %w", components[i].path, err)
		}
	}
	return components, nil
}

func goCommand(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

var (
	licenseName = regexp.MustCompile(`(?i)^(un)?licen[cs]es?([-.].*)?$|^copying([-.].*)?$`)
	noticeName  = regexp.MustCompile(`(?i)^(notice|patents|copyright|third[-_]party.*)([-.](txt|md))?$`)
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
			return nil, fmt.Errorf("no licence text in %s", dir)
		}
	}
	return found, nil
}

// texts joins all licence texts.
func texts(components []component) []byte {
	var out bytes.Buffer
	out.WriteString("Halley contains the following modules, under these licences.\n")
	for _, c := range components {
		for _, l := range c.licenses {
			fmt.Fprintf(&out, "\n%s\n%s %s: %s\n%[1]s\n\n%[5]s\n", strings.Repeat("=", 80), c.path, c.version, l.name, strings.TrimSpace(strings.ReplaceAll(l.text, "\r\n", "\n")))
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

// identify returns the SPDX identifier of a licence, or NOASSERTION if the text is
// not a known one.
func identify(text string) string {
	text = space.ReplaceAllString(text, " ")
	id, first := "NOASSERTION", len(text)
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

type document struct {
	SPDXVersion       string         `json:"spdxVersion"`
	DataLicense       string         `json:"dataLicense"`
	SPDXID            string         `json:"SPDXID"`
	Name              string         `json:"name"`
	DocumentNamespace string         `json:"documentNamespace"`
	CreationInfo      creation       `json:"creationInfo"`
	Packages          []spdxPackage  `json:"packages"`
	Relationships     []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	Name             string        `json:"name"`
	SPDXID           string        `json:"SPDXID"`
	VersionInfo      string        `json:"versionInfo"`
	DownloadLocation string        `json:"downloadLocation"`
	FilesAnalyzed    bool          `json:"filesAnalyzed"`
	LicenseConcluded string        `json:"licenseConcluded"`
	LicenseDeclared  string        `json:"licenseDeclared"`
	CopyrightText    string        `json:"copyrightText"`
	Comment          string        `json:"comment,omitempty"`
	Checksums        []checksum    `json:"checksums,omitempty"`
	ExternalRefs     []externalRef `json:"externalRefs,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type externalRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

const noAssertion = "NOASSERTION"

// spdx returns the list of the binary's components as JSON. Its time is that of
// the commit, so that equal binaries have equal lists.
func spdx(binary string, info *debug.BuildInfo, own []licenseText, components []component) ([]byte, error) {
	b, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(b)
	sum := hex.EncodeToString(digest[:])
	created := "1980-01-01T00:00:00Z"
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			created = s.Value
		}
	}
	const main = "SPDXRef-Package-halley"
	d := document{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT",
		Name:              "halley " + info.Main.Version,
		DocumentNamespace: "https://spdx.org/spdxdocs/halley-" + sum,
		CreationInfo:      creation{created, []string{"Tool: halley-scripts-sbom"}},
		Packages: []spdxPackage{{
			Name: "halley", SPDXID: main, VersionInfo: info.Main.Version, DownloadLocation: noAssertion,
			LicenseConcluded: noAssertion, LicenseDeclared: identify(own[0].text), CopyrightText: noAssertion,
			Checksums: []checksum{{"SHA256", sum}},
		}},
		Relationships: []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", main}},
	}
	for i, c := range components {
		p := spdxPackage{
			Name: c.path, SPDXID: fmt.Sprintf("SPDXRef-Package-%d", i+1), VersionInfo: c.version,
			DownloadLocation: downloadLocation(c), LicenseConcluded: noAssertion,
			LicenseDeclared: identify(c.licenses[0].text), CopyrightText: noAssertion,
			ExternalRefs: []externalRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + c.path + "@" + strings.ReplaceAll(c.version, "+", "%2B")}},
		}
		if c.sum != "" {
			p.Comment = "go.sum: " + c.sum
		}
		d.Packages = append(d.Packages, p)
		d.Relationships = append(d.Relationships, relationship{main, "DEPENDS_ON", p.SPDXID})
	}
	out, err := json.MarshalIndent(d, "", "  ")
	return append(out, '\n'), err
}

// downloadLocation returns the address of a module in the public module proxy,
// which writes capital letters as ! and the small letter.
func downloadLocation(c component) string {
	if c.path == "std" {
		return "https://go.dev/dl/" + c.version + ".src.tar.gz"
	}
	var escaped strings.Builder
	for _, r := range c.path {
		if unicode.IsUpper(r) {
			escaped.WriteByte('!')
		}
		escaped.WriteRune(unicode.ToLower(r))
	}
	return "https://proxy.golang.org/" + escaped.String() + "/@v/" + c.version + ".zip"
}
