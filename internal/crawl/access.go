package crawl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// CheckAccess reads the files that the settings name: certificates and credentials. The error names every fault.
func CheckAccess(s *config.Settings) error { return access(&fetch.Options{}, s) }

// access reads certificates and credentials into the options of a fetcher, whose PrivateTo is set.
func access(o *fetch.Options, s *config.Settings) error {
	var faults []error
	fault := func(setting string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", setting, err))
		}
	}
	var err error
	if s.CAFile != "" {
		o.RootCAs, err = rootsOf(s.CAFile)
		fault("ca-file", err)
	}
	if s.ClientCert != "" {
		o.ClientCert, err = clientCert(s.ClientCert)
		fault("client-cert", err)
	}
	o.Insecure = s.Insecure
	return errors.Join(faults...)
}

// rootsOf are the system's roots and the certificates of a file.
func rootsOf(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // the system has none
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM form", path)
	}
	return roots, nil
}

// clientCert reads a certificate and its key, which are in one file or in two.
func clientCert(paths string) (*tls.Certificate, error) {
	certFile, keyFile, two := strings.Cut(paths, ",")
	if !two {
		keyFile = certFile
	}
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("%s: want a certificate and its key without a password, in PEM form: %w", paths, err)
	}
	return &cert, nil
}
