package fetch

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

// sealer makes the records of a TLS 1.3 server by AES-128. With crypto/tls one cannot choose them.
type sealer struct {
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
}

// newSealer begins with the secret that the server's key log names.
func newSealer(keyLog []byte) (*sealer, error) {
	for line := range bytes.Lines(keyLog) {
		if f := bytes.Fields(line); len(f) == 3 && string(f[0]) == "SERVER_TRAFFIC_SECRET_0" {
			secret, err := hex.DecodeString(string(f[2]))
			if err != nil {
				return nil, err
			}
			s := &sealer{secret: secret}
			return s, s.use()
		}
	}
	return nil, fmt.Errorf("no secret in %q", keyLog)
}

func (s *sealer) expand(label string, size int) ([]byte, error) {
	label = "tls13 " + label
	info := append([]byte{0, byte(size), byte(len(label))}, label...)
	return hkdf.Expand(sha256.New, s.secret, string(append(info, 0)), size)
}

// use computes the keys of the secret.
func (s *sealer) use() error {
	key, err := s.expand("key", 16)
	if err != nil {
		return err
	}
	if s.iv, err = s.expand("iv", 12); err != nil {
		return err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	s.seq = 0
	s.aead, err = cipher.NewGCM(block)
	return err
}

// seal makes a record of a type: 22 is a handshake message, 23 data.
func (s *sealer) seal(kind byte, content ...byte) []byte {
	plain := append(bytes.Clone(content), kind)
	head := binary.BigEndian.AppendUint16([]byte{23, 3, 3}, uint16(len(plain)+s.aead.Overhead()))
	nonce := bytes.Clone(s.iv)
	for i, b := range binary.BigEndian.AppendUint64(nil, s.seq) {
		nonce[4+i] ^= b
	}
	s.seq++
	return s.aead.Seal(head, nonce, plain, head)
}

// update makes a KeyUpdate, which may ask for one in return, and takes the next keys.
func (s *sealer) update(asks byte) ([]byte, error) {
	record := s.seal(22, 24, 0, 0, 1, asks)
	next, err := s.expand("traffic upd", sha256.Size)
	if err != nil {
		return nil, err
	}
	s.secret = next
	return record, s.use()
}

// tickets makes a record with tickets for new sessions.
func (s *sealer) tickets(n int) []byte {
	const lifetime, age, nonce, ticket, extensions = "\x00\x00\x0e\x10", "\x00\x00\x00\x00", "\x00", "\x00\x01t", "\x00\x00"
	message := lifetime + age + nonce + ticket + extensions
	return s.seal(22, bytes.Repeat(append([]byte{4, 0, 0, byte(len(message))}, message...), n)...)
}

// A server of HTTP/1 that sends messages of TLS without end beside a small answer is left: the client computes for each
// of them. It is the same behind a proxy.
func TestMessagesOfTLS(t *testing.T) {
	const pieces = 2000
	certs := httptest.NewUnstartedServer(nil)
	certs.StartTLS()
	t.Cleanup(certs.Close)
	if conn, err := tls.Dial("tcp", certs.Listener.Addr().String(), &tls.Config{RootCAs: poolOf(certs)}); err != nil {
		t.Fatal(err)
	} else if conn.Close(); conn.ConnectionState().CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skip("this machine computes AES too slowly for crypto/tls to choose it")
	}
	tickets := func(s *sealer) ([]byte, error) { return s.tickets(16), nil }
	updates := func(asks byte) func(*sealer) ([]byte, error) {
		return func(s *sealer) (records []byte, _ error) {
			for range 10 {
				record, err := s.update(asks)
				if err != nil {
					return nil, err
				}
				records = append(records, record...)
			}
			return records, nil
		}
	}
	for name, test := range map[string]struct {
		beside func(*sealer) ([]byte, error) // before each piece of the body
		piece  int                           // bytes
		most   int                           // bytes beside answers that the account may have
		want   bool
	}{
		"small records":        {func(*sealer) ([]byte, error) { return nil, nil }, 1, besideRate, true},
		"keys":                 {updates(0), 1, 100 << 10, false},
		"few keys":             {updates(0), 1, 1 << 20, true},
		"keys for keys":        {updates(1), 1, 1 << 30, false},
		"tickets":              {tickets, 1, 100 << 10, false},
		"few tickets":          {tickets, 1, 2 << 20, true},
		"tickets between more": {tickets, 1000, 100 << 10, false},
	} {
		piece, length := bytes.Repeat([]byte{'x'}, test.piece), pieces*test.piece
		url := listen(t, func(_ int, raw net.Conn) {
			var log bytes.Buffer
			c := tls.Server(raw, &tls.Config{Certificates: certs.TLS.Certificates, KeyLogWriter: &log,
				MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true})
			if err := c.Handshake(); err != nil {
				t.Error(err)
				return
			}
			s, err := newSealer(log.Bytes())
			if err != nil {
				t.Error(err)
				return
			}
			if !readRequest(c) {
				return
			}
			gone := make(chan struct{})
			go func() { defer close(gone); _, _ = io.Copy(io.Discard, raw) }()
			defer func() { <-gone }() // the client closes the connection first
			out := s.seal(23, fmt.Appendf(nil, okHead+"Content-Length: %d\r\n\r\n", length)...)
			for range pieces {
				records, err := test.beside(s)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := raw.Write(slices.Concat(out, records, s.seal(23, piece...))); err != nil {
					return
				}
				out = nil
			}
		})
		host := url[len("http://"):]
		for way, proxy := range proxiesTo(t, host) {
			c := newClient(t, Options{RootCAs: poolOf(certs), Proxy: proxy, AllowHosts: []string{host}})
			c.account.beside.SetLimit(0)
			c.account.beside.SetBurst(test.most)
			res, err := get(t, c, "https://"+host)
			if isWhole := err == nil && len(res.Body) == length; isWhole != test.want {
				t.Errorf("%s, proxy %s: %v", name, way, err)
			}
			c.closeIdle()
		}
	}
}

// A handshake is refused if it is larger than those of any server that means well, whatever makes it so: a connection
// holds it as long as it is kept.
func TestLargeHandshake(t *testing.T) {
	for _, staple := range []int{10 << 10, 60 << 10} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
		}))
		a := newAuthority(t, nil, "an authority")
		names := make([]string, 1000)
		for i := range names {
			names[i] = fmt.Sprintf("a-rather-long-name-%d.example.com", i)
		}
		leaf, key := a.issue(a, &x509.Certificate{DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
		s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: key,
			OCSPStaple: make([]byte, staple)}}}
		s.Config.ErrorLog = quiet()
		s.StartTLS()
		roots := x509.NewCertPool()
		roots.AddCert(a.cert)
		_, err := get(t, newClient(t, Options{RootCAs: roots}), s.URL)
		if want := len(leaf.Raw)+staple < mostHandshake; (err == nil) != want || err != nil && KindOf(err) != TLSError {
			t.Errorf("a certificate of %d bytes and a staple of %d: %v", len(leaf.Raw), staple, err)
		}
		s.Close()
	}
}

// Answers of any size, in records of any size that servers send, are not taken for messages of TLS.
func TestLargeAnswersOverTLS(t *testing.T) {
	body := make([]byte, 8<<20)
	for name, piece := range map[string]func(i int) int{
		"whole":         func(int) int { return len(body) },
		"odd pieces":    func(i int) int { return 1 + i*7919%70_000 },
		"small records": func(i int) int { return 1 + i%100 },
		"TLS 1.2":       func(i int) int { return 1 + i%100 },
	} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			for rest := body; len(rest) > 0; {
				n := min(piece(len(rest)), len(rest))
				_, _ = w.Write(rest[:n])
				if n < 1000 {
					_ = http.NewResponseController(w).Flush()
				}
				rest = rest[n:]
			}
		}))
		if name == "TLS 1.2" {
			s.TLS = &tls.Config{MaxVersion: tls.VersionTLS12,
				CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA}}
		}
		s.StartTLS()
		c := newClient(t, Options{RootCAs: poolOf(s), MaxBody: 1 << 30})
		c.account.beside.SetLimit(0)
		c.account.beside.SetBurst(0)
		res, err := get(t, c, s.URL)
		if err != nil || len(res.Body) != len(body) {
			t.Errorf("%s: %v", name, err)
		}
		res.Close()
		c.closeIdle()
		s.Close()
	}
}
