package packaging

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// releaseFiles are an app that compiles only without the build tag of packages.
func releaseFiles() map[string]string {
	files := appFiles()
	delete(files, "app/packaged.go")
	files["app/dev.go"] = "//go:build !" + BuildTag + "\n\npackage main\n\nfunc packaged(int) {}\n"
	files["app/LICENSE"] = license
	return files
}

func newKey(t *testing.T) (text string, public ed25519.PublicKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), public
}

// The archives of a release hold the binaries of their platforms, its checksums are those
// of the archives, and openssl and sha256sum verify them.
func TestReleaseCanBeVerified(t *testing.T) {
	if testing.Short() || os.Getenv("HALLEY_TEST_LONG") == "" {
		t.Skip("compiles Go's runtime for six platforms: it runs if HALLEY_TEST_LONG is set")
	}
	text, public := newKey(t)
	key, err := ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	root := writeApp(t, releaseFiles())
	target := t.TempDir()
	files, err := Release{Root: root, Main: ".", Name: "shop", Target: target, Key: key, Stderr: t.Output()}.Write(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(platforms)+2 {
		t.Fatalf("files %q", files)
	}
	var sums strings.Builder
	for i, p := range platforms {
		content, err := os.ReadFile(files[i])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&sums, "%x  shop-%s-%s.zip\n", sha256.Sum256(content), p.system, p.arch)
		executable := "shop"
		if p.system == "windows" {
			executable += ".exe"
		}
		entries := unpack(t, files[i])
		if got, want := slices.Sorted(maps.Keys(entries)), []string{"LICENSE", licenseFile, sbomFile, executable}; !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", files[i], got, want)
		}
		info := buildInfo(t, entries[executable].content)
		if setting(info, "GOOS") != p.system || setting(info, "GOARCH") != p.arch || setting(info, "-tags") != releaseTags {
			t.Errorf("%s has a binary of %v", files[i], info.Settings)
		}
	}
	checksums, err := os.ReadFile(filepath.Join(target, checksumFile))
	if err != nil || string(checksums) != sums.String() {
		t.Errorf("checksums are %q, %v, want %q", checksums, err, sums.String())
	}
	verifyByOpenSSL(t, target, public)

	first, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	again, err := Release{Root: root, Main: ".", Name: "shop", Target: t.TempDir(), Stderr: t.Output()}.writeArchive(t.Context(), platforms[0])
	if err != nil {
		t.Fatal(err)
	}
	if second, err := os.ReadFile(again); err != nil || !bytes.Equal(first, second) {
		t.Errorf("a second build differs: %v", err)
	}
}

func verifyByOpenSSL(t *testing.T, dir string, public ed25519.PublicKey) {
	t.Helper()
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Log("openssl is not installed: the signature is verified by Go alone")
		checksums, _ := os.ReadFile(filepath.Join(dir, checksumFile))
		signature, _ := os.ReadFile(filepath.Join(dir, signatureFile))
		if !ed25519.Verify(public, checksums, signature) {
			t.Error("the signature is not that of the checksums")
		}
		return
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "release.pub")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	verify := exec.Command(openssl, "pkeyutl", "-verify", "-pubin", "-inkey", file, "-rawin", "-in", checksumFile, "-sigfile", signatureFile)
	verify.Dir = dir
	if out, err := verify.CombinedOutput(); err != nil {
		t.Errorf("openssl: %v: %s", err, out)
	}
}

func TestReleaseKeysAreParsed(t *testing.T) {
	text, _ := newKey(t)
	for name, test := range map[string]struct{ text, want string }{
		"no PEM":      {"secret", "no PEM block"},
		"no PKCS #8":  {"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n", "not a PKCS #8 private key"},
		"a good key":  {text, ""},
		"lines after": {text + "comment\n", ""},
	} {
		_, err := ParseKey(test.text)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "c2Vj")) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
