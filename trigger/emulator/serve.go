package emulator

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// ServeOptions of [Account.Serve]. The zero value serves HTTP on the port of the
// official emulator.
type ServeOptions struct {
	// Addr is the address to listen on; "" = 127.0.0.1:8081. If the port is 0, the
	// system chooses a free one.
	Addr string
	// TLS makes the endpoint one of HTTPS. The port always serves both HTTP and HTTPS, and
	// each client is told an endpoint in the scheme that it has used.
	TLS bool
	// CertOut is the file to which the authority of the certificate of HTTPS is written as
	// PEM, for clients to trust; "" = none. The certificate is for localhost and the loopback
	// addresses; both are made at the start.
	CertOut string
	// AllowRemote permits an Addr that other machines reach. The account's key is
	// public: every machine that reaches the account controls it.
	AllowRemote bool
	// Advertise is the URL that clients are told to use, such as that of a proxy before
	// the account; its host may be in the Host of requests. "" = what each client used.
	Advertise string
	// Ready is called once with the endpoint, when the account accepts connections.
	Ready func(endpoint string)
}

// Limits of connections. Nothing bounds how long an answer may take, which
// Options.Latency and faults may draw out.
const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = time.Minute
	idleTimeout   = 5 * time.Minute
	maxHeader     = 64 << 10
	stopGrace     = 5 * time.Second
)

// Serve answers connections until ctx ends, then lets requests that are under way
// finish for up to five seconds. It returns nil when ctx ended it. While it runs,
// its address is the account's endpoint. The account stays open.
func (a *Account) Serve(ctx context.Context, o ServeOptions) error {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:8081"
	}
	if err := errors.Join(o.check(), a.checkServing(o)); err != nil {
		return fmt.Errorf("serve emulator: %w", err)
	}
	config, err := serverConfig(o.CertOut)
	if err != nil {
		return fmt.Errorf("serve emulator: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Addr)
	if err != nil {
		return fmt.Errorf("serve emulator: %w", err)
	}
	served := o.address(listener.Addr().(*net.TCPAddr))
	regional, err := a.listenRegions(ctx, listener, o.Addr)
	if err != nil {
		return fmt.Errorf("serve emulator: %w", errors.Join(err, listener.Close()))
	}
	served.regionPorts = ports(regional)
	a.served.Store(&served)
	defer a.served.Store(nil)
	if o.Ready != nil {
		o.Ready(served.endpoint)
	}
	err = acceptAll(ctx, append(regional, listener), func(ctx context.Context, listener net.Listener) error {
		return a.accept(ctx, listener, config)
	})
	if err != nil {
		return fmt.Errorf("serve emulator: %w", err)
	}
	return nil
}

func (o ServeOptions) check() error {
	host, _, err := net.SplitHostPort(o.Addr)
	switch {
	case err != nil:
		return fmt.Errorf("address %q must be host:port, such as 127.0.0.1:8081: %w", o.Addr, err)
	case !o.AllowRemote && !loopbackName(host):
		return fmt.Errorf("address %q can be reached by other machines, and the key of the account is public: listen on 127.0.0.1, or allow remote access", o.Addr)
	}
	if u, err := url.Parse(o.Advertise); o.Advertise != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "") {
		return fmt.Errorf("the URL to advertise, %q, must be http:// or https:// and a host, such as https://cosmos.test:8443", o.Advertise)
	}
	return nil
}

// address is how clients reach a served account.
type address struct {
	endpoint    string
	regionPorts []int  // of the listeners of the regions, if there are several
	advertised  string // host of the URL that all clients are told; "" = what each client used
}

func (o ServeOptions) address(listening *net.TCPAddr) address {
	if o.Advertise == "" {
		return address{endpoint: o.endpoint(listening)}
	}
	u, _ := url.Parse(o.Advertise) // check has read it
	return address{endpoint: u.Scheme + "://" + u.Host + "/", advertised: hostName(u.Host)}
}

// endpoint returns the address of the server. If it listens on all addresses, it is the
// loopback address.
func (o ServeOptions) endpoint(address *net.TCPAddr) string {
	scheme, host := "http", address.IP
	if o.TLS {
		scheme = "https"
	}
	if host.IsUnspecified() {
		host = net.IPv4(127, 0, 0, 1)
	}
	return scheme + "://" + net.JoinHostPort(host.String(), fmt.Sprint(address.Port)) + "/"
}

// accept serves HTTP and HTTPS until ctx ends.
func (a *Account) accept(ctx context.Context, tcp net.Listener, config *tls.Config) error {
	var unused unusedConnections
	listener := listenForBoth(tcp, config, &unused)
	defer listener.wait()
	server := &http.Server{
		Handler: a, TLSConfig: config.Clone(), ConnState: unused.follow,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		Protocols: new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)            // if a client of TLS asks for it
	server.Protocols.SetUnencryptedHTTP2(true) // with prior knowledge, as the SDK for Rust has it
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		stopped <- errors.Join(server.Shutdown(grace), server.Close())
	})
	err := server.Serve(listener)
	if stop() {
		return errors.Join(err, server.Close()) // the server ended before ctx did
	}
	if err := <-stopped; err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// certificateLife is how long a certificate of one start is valid.
const certificateLife = 365 * 24 * time.Hour

// serverConfig is the configuration of HTTPS. The certificate is made for the first client
// that asks for it, as most use HTTP; or at once, if clients take its authority from a file.
func serverConfig(file string) (*tls.Config, error) {
	certificate := sync.OnceValues(func() (*tls.Certificate, error) { return makeCertificate(file) })
	if file != "" {
		if _, err := certificate(); err != nil {
			return nil, err
		}
	}
	return &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate() },
		MinVersion:     tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
	}, nil
}

// makeCertificate makes a certificate for this machine, and the authority that issues it:
// some clients, as that for Rust, take no certificate that is its own authority. The
// authority's certificate is written to file if that is not "". Its key is not kept.
func makeCertificate(file string) (*tls.Certificate, error) {
	authority := &x509.Certificate{
		Subject:  pkix.Name{CommonName: "Halley emulator, authority of one start"},
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	root, err := issue(authority, nil, nil)
	if err != nil {
		return nil, err
	}
	server, err := issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "Halley emulator"},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}, authority, root.PrivateKey)
	if err != nil {
		return nil, err
	}
	if file != "" {
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate[0]})
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return nil, fmt.Errorf("write certificate: %w", err)
		}
	}
	return &server, nil
}

// issue makes a key, and a certificate of it that issuer signs; if issuer is nil, it signs itself.
func issue(template, issuer *x509.Certificate, signer crypto.PrivateKey) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make key: %w", err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return tls.Certificate{}, fmt.Errorf("make serial number: %w", err)
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(certificateLife)
	if issuer == nil {
		issuer, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, signer)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("sign certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
