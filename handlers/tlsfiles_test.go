package handlers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"halley/handlers"
	"halley/handlers/handlerstest"
)

func TestBadFilesNameTheSetting(t *testing.T) {
	_, good := handlerstest.Certificate(t)
	noPEM := filepath.Join(t.TempDir(), "pem")
	if err := os.WriteFile(noPEM, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, files := range map[string]handlers.TLSFiles{
		"CA_FILE cannot be read":                      {CA: noPEM + "x"},
		"CA_FILE " + noPEM + " has no certificate":    {CA: noPEM},
		"CERT_FILE and KEY_FILE belong together":      {Cert: good.Cert},
		"CERT_FILE and KEY_FILE are not a certificat": {Cert: good.Cert, Key: noPEM},
	} {
		if _, err := files.Config(true); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
	if _, err := good.Config(false); err == nil || !strings.Contains(err.Error(), "the connection is without TLS") {
		t.Errorf("files without TLS: %v", err)
	}
	if config, err := (handlers.TLSFiles{}).Config(false); config != nil || err != nil {
		t.Errorf("without TLS: %v, %v", config, err)
	}
}

// A certificate that is renewed while the handler runs is used for the next connection.
func TestRenewedCertificateIsRead(t *testing.T) {
	_, files := handlerstest.Certificate(t)
	config, err := files.Config(true)
	if err != nil {
		t.Fatal(err)
	}
	before, err := config.GetClientCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, renewed := handlerstest.Certificate(t)
	for from, to := range map[string]string{renewed.Cert: files.Cert, renewed.Key: files.Key} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	after, err := config.GetClientCertificate(nil)
	if err != nil || string(after.Certificate[0]) == string(before.Certificate[0]) {
		t.Errorf("the certificate is still the former one: %v", err)
	}
}
