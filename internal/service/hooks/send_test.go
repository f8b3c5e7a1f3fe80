package hooks

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The example of the Standard Webhooks specification.
func TestSignature(t *testing.T) {
	t.Parallel()
	got, err := sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0),
		[]byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	for _, secret := range []string{"", "abc", "whsec_!", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"} {
		if _, err := sign(secret, "a", time.Now(), nil); err == nil {
			t.Errorf("secret %q is taken", secret)
		}
	}
	a, b := newSecret(), newSecret()
	if _, err := sign(a, "a", time.Now(), nil); err != nil || a == b {
		t.Errorf("secrets %s and %s: %v", a, b, err)
	}
}

func TestSend(t *testing.T) {
	t.Parallel()
	secret := newSecret()
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	var elsewhere atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("POST /ok", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(r.Header.Get("webhook-id") + "." + r.Header.Get("webhook-timestamp") + "." + string(body)))
		if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); r.Header.Get("webhook-signature") != want ||
			r.Header.Get("Content-Type") != "application/json" {
			http.Error(w, "wrong signature", http.StatusForbidden)
		}
	})
	mux.HandleFunc("POST /moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/elsewhere", func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/switch", func(w http.ResponseWriter, _ *http.Request) { // and then says nothing, and stays
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { conn.Close() })
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	})
	mux.HandleFunc("/error",
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	server := httptest.NewServer(mux)
	defer server.Close()
	s := newSender(Options{UserAgent: "Test/1"})
	defer s.close()
	for _, c := range []struct {
		path    string
		private bool
		status  int
		says    string
	}{
		{"/ok", true, 200, ""},
		{"/ok", false, 0, "the address is not public"},
		{"/moved", true, 307, "not followed"},
		{"/endless", true, 200, ""},
		{"/error", true, 500, "answered 500"},
		{"/none", true, 404, "answered 404"},
		{"/switch", true, 101, "answered 101"},
	} {
		status, err := s.send(t.Context(), &job{ID: "d1", URL: server.URL + c.path, Secret: secret,
			AllowPrivate: c.private, Body: []byte(`{"a":1}`)}, time.Now())
		if status != c.status || (err == nil) != (c.says == "") || err != nil &&
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %d, %v; want %d, %q", c.path, status, err, c.status, c.says)
		}
		if err != nil && strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s: the error names an address: %v", c.path, err)
		}
	}
	if elsewhere.Load() > 0 {
		t.Error("a redirect was followed")
	}
	// A name that means this machine is as guarded as its address.
	name := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	if _, err := s.send(t.Context(), &job{ID: "d1", URL: name + "/ok", Secret: secret}, time.Now()); err == nil ||
		!strings.Contains(err.Error(), "public") {
		t.Errorf("localhost: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.send(ended, &job{ID: "d1", URL: server.URL + "/ok", Secret: secret, AllowPrivate: true},
		time.Now()); err == nil {
		t.Error("sent after the end")
	}
}

// newCertificate makes a certificate for 127.0.0.1, signed by itself, with an extension of some bytes.
func newCertificate(t *testing.T, curve elliptic.Curve, bytes int) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 999, 1}, Value: make([]byte, bytes)}}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return c, key
}

// Certificates of receivers cost no more than those of sites: those that take long to verify wait for the account's
// turn, and large ones are refused.
func TestCertificatesOfReceivers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		curve     elliptic.Curve
		more      int // bytes of another certificate
		isTrusted bool
		computes  int
		says      string
	}{
		"usual":       {elliptic.P256(), 0, true, 0, ""},
		"a large key": {elliptic.P521(), 0, true, 1, ""},
		"not trusted": {elliptic.P521(), 0, false, 1, "certificate"},
		"large":       {elliptic.P256(), 64 << 10, true, 0, "65536 are allowed"},
	} {
		own, key := newCertificate(t, c.curve, 0)
		more, _ := newCertificate(t, c.curve, c.more)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{own.Raw}, PrivateKey: key}}}
		if c.more > 0 {
			server.TLS.Certificates[0].Certificate = append(server.TLS.Certificates[0].Certificate, more.Raw)
		}
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		defer server.Close()
		var began, ended []string
		s := newSender(Options{Compute: func(_ context.Context, account string) func() {
			began = append(began, account)
			return func() { ended = append(ended, account) }
		}})
		defer s.close()
		if s.roots = x509.NewCertPool(); c.isTrusted {
			s.roots.AddCert(own)
		}
		_, err := s.send(t.Context(), &job{ID: "d1", Account: "a1", URL: server.URL, Secret: newSecret(),
			AllowPrivate: true}, time.Now())
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if want := slices.Repeat([]string{"a1"}, c.computes); !slices.Equal(began, want) || !slices.Equal(ended, want) {
			t.Errorf("%s: computed for %q, ended for %q; want %q", name, began, ended, want)
		}
	}
}

// What a receiver sends instead of an answer is quoted in part only: the error is kept for months, and logged. An
// address in it is not.
func TestErrorsThatQuoteAReceiver(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"status line":    strings.Repeat("\x01", 60_000) + "\r\n\r\n",
		"protocol":       "HTTP/9.9 " + strings.Repeat("x\xff", 30_000) + "\r\n\r\n",
		"status":         "HTTP/1.1 " + strings.Repeat("2", 60_000) + "\r\n\r\n",
		"header":         "HTTP/1.1 200 OK\r\n" + strings.Repeat("\x02\"<", 20_000) + "\r\n\r\n",
		"content length": "HTTP/1.1 200 OK\r\nContent-Length: " + strings.Repeat("z", 60_000) + "\r\n\r\n",
		"encoding":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + strings.Repeat("z", 60_000) + "\r\n\r\n",
		"addresses":      strings.Repeat("10.1.2.3 ", 7_000) + "\r\n\r\n",
		"one long word":  "HTTP/1.1 2" + strings.Repeat("10.1.2.3:", 7_000) + "\r\n\r\n",
	}
	s := newSender(Options{})
	defer s.close()
	for name, answer := range answers {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, answer)
			_, _ = io.Copy(io.Discard, conn) // to its end: closed early, the rest of the answer could be lost
		}))
		_, err := s.send(t.Context(), &job{ID: "d1", URL: server.URL, Secret: newSecret(), AllowPrivate: true},
			time.Now())
		server.CloseClientConnections()
		server.Close()
		if err == nil || len(err.Error()) > 2000 || strings.Contains(err.Error(), "10.1.2.3 ") {
			text := ""
			if err != nil {
				text = err.Error()
			}
			t.Errorf("%s: an error of %d bytes: %.200s", name, len(text), text)
		}
	}
}

// A receiver that sends much of TLS for a small answer is left. Many answers over one connection are no reason to.
func TestReceiverSendsTooMuch(t *testing.T) {
	t.Parallel()
	own, key := newCertificate(t, elliptic.P256(), 0)
	pair := tls.Certificate{Certificate: [][]byte{own.Raw}, PrivateKey: key}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	var answer atomic.Pointer[string]
	var conns atomic.Int64
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			serving.Go(func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for {
					if _, err := http.ReadRequest(in); err != nil {
						return
					}
					for _, b := range []byte(*answer.Load()) { // in records of their own
						if _, err := c.Write([]byte{b}); err != nil {
							return
						}
					}
				}
			})
		}
	})
	defer serving.Wait()
	defer l.Close()
	s := newSender(Options{})
	defer s.close()
	s.roots = x509.NewCertPool()
	s.roots.AddCert(own)
	for _, test := range []struct {
		header, attempts int
		ok               bool
	}{{2000, 10, true}, {8000, 1, false}} {
		answer.Store(new("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nA: " + strings.Repeat("a", test.header) + "\r\n\r\n"))
		for range test.attempts {
			_, err := s.send(t.Context(), &job{ID: "d1", URL: "https://" + l.Addr().String(), Secret: newSecret(),
				AllowPrivate: true}, time.Now())
			if (err == nil) != test.ok || err != nil && !strings.Contains(err.Error(), "too much") {
				t.Errorf("a header of %d bytes: %v", test.header, err)
			}
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections, want one for all attempts", n)
	}
}

func TestCheckURL(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"https://example.com/hook", "http://10.0.0.1:8080/x?y=z"} {
		if err := checkURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "example.com", "ftp://example.com/", "https://", "https://:80/",
		"file:///etc/passwd", "https://u:p@example.com/", "http://a b/",
		"https://example.com/" + strings.Repeat("a", 2048)} {
		if checkURL(bad) == nil {
			t.Errorf("%.50s is taken", bad)
		}
	}
}
