package handlerstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"halley/handlers"
	"halley/trigger"
)

// Certificate returns the TLS of a server on loopback, with a certificate that has signed
// itself, and the files of its clients: it takes those with this certificate alone.
func Certificate(t testing.TB) (*tls.Config, handlers.TLSFiles) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	write := func(name, kind string, content []byte) string {
		file := filepath.Join(directory, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	certificate := write("certificate.pem", "CERTIFICATE", der)
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(parsed)
	server := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	return server, handlers.TLSFiles{CA: certificate, Cert: certificate, Key: write("key.pem", "PRIVATE KEY", private)}
}

// RequireTLS tests the settings CA_FILE, CERT_FILE and KEY_FILE of a handler whose server has
// the TLS of [Certificate]. prefix is that of its settings. deliver opens the handler and
// delivers a change.
func RequireTLS(t *testing.T, prefix string, files handlers.TLSFiles, deliver func() trigger.Verdict) {
	t.Helper()
	if v := deliver(); len(v.Failed) == 0 {
		t.Errorf("a server is trusted that the system does not know: %v", v)
	}
	t.Setenv(prefix+"CA_FILE", files.CA)
	if v := deliver(); len(v.Failed) == 0 {
		t.Errorf("a client without a certificate is taken: %v", v)
	}
	t.Setenv(prefix+"CERT_FILE", files.Cert)
	t.Setenv(prefix+"KEY_FILE", files.Key)
	if v := deliver(); len(v.Failed) > 0 {
		t.Errorf("with all files: %v", v)
	}
}
