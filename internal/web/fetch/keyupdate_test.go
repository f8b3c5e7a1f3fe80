package fetch

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
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

// update makes a KeyUpdate that asks for one in return, and takes the next keys.
func (s *sealer) update() ([]byte, error) {
	record := s.seal(22, 24, 0, 0, 1, 1)
	next, err := s.expand("traffic upd", sha256.Size)
	if err != nil {
		return nil, err
	}
	s.secret = next
	return record, s.use()
}

// A server of HTTP/1 that changes the keys of TLS again and again is left: the client computes and writes for each.
func TestKeyUpdates(t *testing.T) {
	const length = 2000
	certs := httptest.NewUnstartedServer(nil)
	certs.StartTLS()
	t.Cleanup(certs.Close)
	if conn, err := tls.Dial("tcp", certs.Listener.Addr().String(), &tls.Config{RootCAs: poolOf(certs)}); err != nil {
		t.Fatal(err)
	} else if conn.Close(); conn.ConnectionState().CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skip("this machine computes AES too slowly for crypto/tls to choose it")
	}
	for _, test := range []struct {
		updates  int // for each byte of the body; crypto/tls takes 16 at most
		requests int
		want     bool
	}{{updates: 0, requests: 2, want: true}, {updates: 10, requests: 1}} {
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
			for range test.requests {
				if !readRequest(c) {
					return
				}
				head := fmt.Appendf(nil, okHead+"Content-Length: %d\r\n\r\n", length)
				if _, err := raw.Write(s.seal(23, head...)); err != nil {
					return
				}
				if test.updates > 0 {
					gone := make(chan struct{})
					go func() { defer close(gone); _, _ = io.Copy(io.Discard, raw) }()
					defer func() { <-gone }() // the client closes the connection first
				}
				for range length {
					var records []byte
					for range test.updates {
						record, err := s.update()
						if err != nil {
							t.Error(err)
							return
						}
						records = append(records, record...)
					}
					if _, err := raw.Write(append(records, s.seal(23, 'x')...)); err != nil {
						return
					}
				}
			}
		})
		c := newClient(t, Options{RootCAs: poolOf(certs)})
		for range test.requests {
			res, err := get(t, c, "https"+url[len("http"):])
			if isWhole := err == nil && len(res.Body) == length; isWhole != test.want {
				t.Errorf("%d changes for each byte: %v", test.updates, err)
			}
		}
		if n := c.Stats().Dials; n != 1 {
			t.Errorf("%d connections", n)
		}
		c.closeIdle()
	}
}
