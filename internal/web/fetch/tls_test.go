package fetch

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// newAskingServer serves TLS, asks for a client certificate, and answers with whether it got one.
func newAskingServer(t *testing.T, http2 bool) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		text := "none"
		if len(r.TLS.PeerCertificates) > 0 {
			text = "certificate"
		}
		_, _ = io.WriteString(w, text)
	}))
	s.EnableHTTP2 = http2
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.Config.ErrorLog = quiet()
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// A client certificate is shown to the origins that it is for, and not to another port of the host or to another host,
// over HTTP/1, HTTP/2 and through a proxy.
func TestClientCertificateStaysWithItsOrigins(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		own, other := newAskingServer(t, http2), newAskingServer(t, http2)
		roots := x509.NewCertPool()
		roots.AddCert(own.Certificate())
		roots.AddCert(other.Certificate())
		o := Options{RootCAs: roots, ClientCert: &own.TLS.Certificates[0]}
		o.PrivateTo.AddURL(mustURL(t, own.URL))
		o.PrivateTo.AddURL(mustURL(t, "https://example.com/"))
		direct := newClient(t, o)
		o.Resolver = always()
		o.Proxy, _ = newProxy(t, own.Listener.Addr().String())
		proxied := newClient(t, o)
		for _, test := range []struct {
			client    *Client
			url, want string
		}{
			{direct, own.URL, "certificate"}, {direct, other.URL, "none"}, {direct, own.URL + "/again", "certificate"},
			{proxied, "https://example.com/", "certificate"}, {proxied, "https://example.com:444/", "none"},
			{proxied, "https://sub.example.com/", "none"},
		} {
			res, err := get(t, test.client, test.url)
			if err != nil || string(res.Body) != test.want {
				t.Errorf("HTTP/2 %v, %s: %v, want %q", http2, test.url, err, test.want)
			}
		}
	}
}

// Without checks every certificate of a host is taken, but none of a proxy that is wrong.
func TestInsecure(t *testing.T) {
	s := newAskingServer(t, false)
	if _, err := get(t, newClient(t, Options{}), s.URL); KindOf(err) != TLSError {
		t.Errorf("%v, want a failure of TLS", err)
	}
	if res, err := get(t, newClient(t, Options{Insecure: true}), s.URL); err != nil || string(res.Body) != "none" {
		t.Errorf("insecure: %v", err)
	}
	proxy, err := ParseProxy(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, newClient(t, Options{Insecure: true, Proxy: proxy, Resolver: always()}),
		"http://example.com/"); err == nil {
		t.Error("the certificate of the proxy was not checked")
	}
}
