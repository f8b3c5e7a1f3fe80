package crawl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// CheckAccess reads the files that the settings name: certificates and credentials. The error names every fault.
func CheckAccess(s *config.Settings) error { return access(&fetch.Options{}, s, nil) }

// access reads certificates and credentials into the options of a fetcher, whose PrivateTo is set.
func access(o *fetch.Options, s *config.Settings, starts []datadir.Start) error {
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
	users, err := config.ReadItems(s.BasicAuth, func(text string) error {
		_, _, err := fetch.ParseBasicAuth(text)
		return err
	})
	fault("basic-auth", err)
	for _, text := range users {
		if auth, origin, err := fetch.ParseBasicAuth(text); err == nil {
			addUser(&auth.To, origin, starts)
			o.BasicAuth = append(o.BasicAuth, auth)
		}
	}
	cookies := fetch.Cookies{}
	for _, st := range starts {
		cookies.To.AddURL(st.URL)
	}
	given, err := config.ReadItems(s.Cookie, func(text string) error {
		_, err := fetch.ParseCookies(text)
		return err
	})
	fault("cookie", err)
	for _, text := range given {
		list, _ := fetch.ParseCookies(text) // what cannot be read is a fault above
		cookies.Given = append(cookies.Given, list...)
	}
	if s.CookieFile != "" {
		cookies.File, err = fetch.ReadCookieFile(s.CookieFile)
		fault("cookie-file", err)
	}
	fault("login-data", checkLoginData(s))
	keep := s.Cookies || s.Login != ""
	if keep {
		cookies.KeepAnswers()
	}
	if len(cookies.Given) > 0 || cookies.File != nil || keep {
		o.Cookies = &cookies
	}
	o.Insecure = s.Insecure
	return errors.Join(faults...)
}

// addUser adds an origin, which can be parsed. Without a scheme it means the start URLs of this host, and of this port
// if it has one. If there are none, it means https.
func addUser(to *fetch.Audience, origin string, starts []datadir.Start) {
	found := false
	if named, err := weburl.Parse("https://" + origin); err == nil && !strings.Contains(origin, "://") {
		for _, st := range starts {
			u := st.URL
			if u.Host() == named.Host() && (named.Port() == "" || u.Port() == named.Port()) {
				to.AddURL(u)
				found = true
			}
		}
	}
	if !found {
		_ = to.Add(origin) // ParseBasicAuth has read it
	}
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
