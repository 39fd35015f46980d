package packaging

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Release describes the archives of an app for the machines of its developers and
// operators. All fields but Key and Stderr are required.
type Release struct {
	Root   string             // a directory in the app's module, with its licence
	Main   string             // main package: an import path, or a path that begins with "."
	Name   string             // of the executable and the archives
	Target string             // directory to write to; it is created if necessary
	Key    ed25519.PrivateKey // signs the checksums; nil for no signature

	Stderr io.Writer // gets the messages of the go command; nothing if nil
}

// platforms are those of a release.
var platforms = []platform{
	{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

// Names of the files beside the archives of a release.
const (
	checksumFile  = "SHA256SUMS"
	signatureFile = checksumFile + ".sig"
)

// Write builds NAME-SYSTEM-ARCH.zip for Linux, macOS and Windows on amd64 and arm64, each
// with the binary, which has all commands, the licences and the list of its modules. It
// writes SHA256SUMS as sha256sum does, and SHA256SUMS.sig, the Ed25519 signature of its
// bytes. The same source and the same Go give the same bytes. It returns the files.
func (r Release) Write(ctx context.Context) (files []string, err error) {
	if err := os.MkdirAll(r.Target, 0o755); err != nil {
		return nil, err
	}
	var sums bytes.Buffer
	for _, p := range platforms {
		archive, err := r.writeArchive(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", p.system, p.arch, err)
		}
		content, err := os.ReadFile(archive)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), filepath.Base(archive))
		files = append(files, archive)
	}
	signed := map[string][]byte{checksumFile: sums.Bytes()}
	if r.Key != nil {
		signed[signatureFile] = ed25519.Sign(r.Key, sums.Bytes())
	}
	for _, name := range []string{checksumFile, signatureFile} {
		path := filepath.Join(r.Target, name)
		content, found := signed[name]
		if !found {
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // of an earlier release
				return nil, err
			}
			continue
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return nil, err
		}
		files = append(files, path)
	}
	return files, nil
}

// writeArchive builds the archive of one platform and returns its path.
func (r Release) writeArchive(ctx context.Context, p platform) (target string, err error) {
	stage, err := os.MkdirTemp("", "release-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	executable := r.Name
	if p.system == "windows" {
		executable += ".exe"
	}
	files := map[string]string{}
	if license := filepath.Join(r.Root, "LICENSE"); isFile(license) {
		files["LICENSE"] = license
	}
	build, err := newToolchain(ctx, r.Root, p, r.Stderr)
	if err != nil {
		return "", err
	}
	if err := build.addBinary(files, r.Main, releaseTags, stage, executable); err != nil {
		return "", err
	}
	target = filepath.Join(r.Target, fmt.Sprintf("%s-%s-%s.zip", r.Name, p.system, p.arch))
	return target, writeZip(target, files, executable)
}

// ParseKey reads an Ed25519 private key in PEM, PKCS #8, as openssl genpkey -algorithm
// ed25519 writes it. Its errors do not repeat the text.
func ParseKey(text string) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("no PEM block: write the text of the file that openssl genpkey -algorithm ed25519 makes")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("not a PKCS #8 private key: make one by openssl genpkey -algorithm ed25519")
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("a %T, not an Ed25519 key: make one by openssl genpkey -algorithm ed25519", parsed)
	}
	return key, nil
}
