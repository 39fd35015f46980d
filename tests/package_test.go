package tests

import (
	"archive/zip"
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"halley/tests/long"
)

// packaged packages the demo with additional environment variables and returns the
// zip.
func packaged(t *testing.T, env ...string) []byte {
	t.Helper()
	target := filepath.Join(t.TempDir(), "halley.zip")
	cmd := exec.Command(binaries.halley, "package", "--output", target)
	cmd.Dir, cmd.Env = "..", append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("halley package: %v\n%s", err, out)
	}
	b, err := os.ReadFile(target)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func unpack(t *testing.T, packed []byte) map[string][]byte {
	t.Helper()
	archive, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range archive.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
	return files
}

// TestPackageDoesNotDependOnTheEnvironment builds the package with settings of Go
// that would change the binary: variables, and a configuration file as go env -w
// writes it.
func TestPackageDoesNotDependOnTheEnvironment(t *testing.T) {
	long.Only(t, "packages the demo twice")
	t.Parallel()
	config := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(config, []byte("GOFLAGS=-tags=netgo\nGOAMD64=v3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := packaged(t, "GOFLAGS=")
	other := packaged(t, "GOFLAGS=-tags=netgo -buildvcs=false -ldflags=-X=main.x=y -gcflags=-N", "GOEXPERIMENT=aliastypeparams,nogreenteagc",
		"GOAMD64=v2", "CGO_ENABLED=1", "GODEBUG=madvdontneed=1", "GOOS=linux", "GOENV="+config)
	if !bytes.Equal(plain, other) {
		a, b := unpack(t, plain), unpack(t, other)
		for name := range a {
			if !bytes.Equal(a[name], b[name]) {
				t.Errorf("%s differs", name)
			}
		}
		t.Error("the packages differ")
	}
	checkModules(t, unpack(t, plain))
}

// checkModules compares the list of modules and the licence texts in a package with
// the modules that are in its binary.
func checkModules(t *testing.T, files map[string][]byte) {
	t.Helper()
	info, err := buildinfo.Read(bytes.NewReader(files["halley"]))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"halley " + info.Main.Version, "std " + info.GoVersion}
	for _, m := range info.Deps {
		want = append(want, m.Path+" "+m.Version)
	}
	var list struct {
		SPDXVersion, DataLicense, SPDXID, Name, DocumentNamespace string
		CreationInfo                                              struct {
			Created  string
			Creators []string
		}
		Packages []struct {
			Name, SPDXID, VersionInfo, DownloadLocation, LicenseDeclared, LicenseConcluded, CopyrightText string
		}
		Relationships []struct{ SPDXElementID, RelationshipType, RelatedSPDXElement string }
	}
	if err := json.Unmarshal(files["sbom.spdx.json"], &list); err != nil {
		t.Fatal(err)
	}
	if list.SPDXVersion != "SPDX-2.3" || list.DataLicense != "CC0-1.0" || list.SPDXID != "SPDXRef-DOCUMENT" || list.Name == "" ||
		list.DocumentNamespace == "" || list.CreationInfo.Created == "" || len(list.CreationInfo.Creators) == 0 {
		t.Errorf("a required field of the document is missing: %+v", list)
	}
	var got []string
	related := map[string]bool{}
	for _, r := range list.Relationships {
		related[r.RelatedSPDXElement] = true
	}
	for _, p := range list.Packages {
		got = append(got, p.Name+" "+p.VersionInfo)
		if p.LicenseDeclared == "" || p.LicenseDeclared == "NOASSERTION" || p.LicenseConcluded == "" || p.DownloadLocation == "" || p.CopyrightText == "" || !related[p.SPDXID] {
			t.Errorf("package %+v", p)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the list has %q, the binary %q", got, want)
	}
	texts := map[string]string{} // by module and version; each part is a heading or a text
	module := ""
	for part := range strings.SplitSeq(string(files["THIRD_PARTY_LICENSES.txt"]), strings.Repeat("=", 80)+"\n") {
		if heading, _, ok := strings.Cut(part, ": "); ok && strings.Count(part, "\n") == 1 {
			module = heading
		} else {
			texts[module] += part
		}
	}
	for _, module := range want {
		if !strings.HasPrefix(module, "halley ") && len(texts[module]) < 500 {
			t.Errorf("no licence text of %s: %q", module, texts[module])
		}
	}
	if !strings.Contains(string(files["LICENSE"]), "MIT License") {
		t.Error("no licence of Halley")
	}
}
