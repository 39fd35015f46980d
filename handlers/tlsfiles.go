package handlers

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLSFiles are the settings CA_FILE, CERT_FILE and KEY_FILE of a handler that connects with
// TLS: files in PEM.
type TLSFiles struct {
	CA   string // certificates that are trusted; those of the system if it is empty
	Cert string // the client's certificate; none if it is empty
	Key  string // its private key
}

// Config returns the configuration of TLS, nil if the handler connects without TLS: then no
// file may be named. The client certificate is read again for each connection, so that it may
// be renewed while the handler runs. An error begins with the name of a setting.
func (f TLSFiles) Config(withTLS bool) (*tls.Config, error) {
	switch {
	case !withTLS && f != (TLSFiles{}):
		return nil, errors.New("CA_FILE, CERT_FILE or KEY_FILE is set, but the connection is without TLS; write a URL with TLS, or remove them")
	case !withTLS:
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("CA_FILE cannot be read: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("CA_FILE %s has no certificate in PEM", f.CA)
		}
	}
	if f.Cert == "" && f.Key == "" {
		return config, nil
	}
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("CERT_FILE and KEY_FILE belong together; set both or none")
	}
	load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("CERT_FILE and KEY_FILE are not a certificate and its key: %w", err)
		}
		return &pair, nil
	}
	if _, err := load(nil); err != nil {
		return nil, err
	}
	config.GetClientCertificate = load
	return config, nil
}
