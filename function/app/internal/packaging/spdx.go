package packaging

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"unicode"
)

// spdxDocument is a list of modules in SPDX 2.3
// (https://spdx.github.io/spdx-spec/v2.3/).
type spdxDocument struct {
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

// spdx returns the list of the binary's components as JSON. Its time is that of the
// commit, so that equal binaries have equal lists.
func spdx(binary string, info *debug.BuildInfo, licenses []licenseText, components []component) ([]byte, error) {
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
	const main = "SPDXRef-Package-main"
	d := spdxDocument{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT",
		Name:              info.Main.Path + " " + info.Main.Version,
		DocumentNamespace: "https://spdx.org/spdxdocs/" + filepath.Base(binary) + "-" + sum,
		CreationInfo:      creation{created, []string{"Tool: halley-package"}},
		Packages: []spdxPackage{{
			Name: info.Main.Path, SPDXID: main, VersionInfo: info.Main.Version, DownloadLocation: noAssertion,
			LicenseConcluded: noAssertion, LicenseDeclared: identify(licenses), CopyrightText: noAssertion,
			Checksums: []checksum{{"SHA256", sum}},
		}},
		Relationships: []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", main}},
	}
	for i, c := range components {
		p := c.spdx(fmt.Sprintf("SPDXRef-Package-%d", i+1))
		d.Packages = append(d.Packages, p)
		d.Relationships = append(d.Relationships, relationship{main, "DEPENDS_ON", p.SPDXID})
	}
	out, err := json.MarshalIndent(d, "", "  ")
	return append(out, '\n'), err
}

func (c component) spdx(id string) spdxPackage {
	p := spdxPackage{
		Name: c.path, SPDXID: id, VersionInfo: c.version, DownloadLocation: c.downloadLocation(),
		LicenseConcluded: noAssertion, LicenseDeclared: identify(c.licenses), CopyrightText: noAssertion,
	}
	if c.replaced {
		p.Comment = "go.mod: replaced by a directory"
		return p
	}
	p.ExternalRefs = []externalRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + c.path + "@" + strings.ReplaceAll(c.version, "+", "%2B")}}
	if c.sum != "" {
		p.Comment = "go.sum: " + c.sum
	}
	return p
}

// downloadLocation returns the address of a module in the public module proxy, which
// writes capital letters as ! and the small letter.
func (c component) downloadLocation() string {
	switch {
	case c.replaced:
		return noAssertion
	case c.path == "std":
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
