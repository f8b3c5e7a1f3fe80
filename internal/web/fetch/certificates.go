package fetch

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
)

const (
	// mostCertificates is how many certificates of a server are looked at. A chain has two to four; further ones come
	// from servers that send all authorities they know, after the chain. If all authorities have one name, each is
	// tried for each: with the largest keys a check takes two milliseconds.
	mostCertificates = 5

	// mostChain is how many bytes the certificates of a server have together: each connection holds them, as text and
	// parsed. usualChain is what those of ordinary servers do not reach.
	mostChain  = 64 << 10
	usualChain = 12 << 10

	// mostSessions is how many TLS sessions a Client keeps, and mostSession how many bytes each of them has. A session
	// holds the certificates of its server.
	// A connection may make mostTickets of them.
	mostSessions = 1024
	mostSession  = 12 << 10
	mostTickets  = 4
)

// sessions are the TLS sessions that may be resumed, for one connection. Large ones are not kept, nor those after the
// first ones: a server may send any number.
type sessions struct {
	tls.ClientSessionCache
	put int // used by the goroutine that reads
}

// Put implements [tls.ClientSessionCache].
func (s *sessions) Put(key string, session *tls.ClientSessionState) {
	if session != nil {
		if s.put++; s.put > mostTickets {
			return
		}
		ticket, state, err := session.ResumptionState()
		if err != nil || state == nil {
			return
		}
		if b, err := state.Bytes(); err != nil || len(ticket)+len(b) > mostSession {
			return
		}
	}
	s.ClientSessionCache.Put(key, session)
}

// Handshake makes the handshake of a TLS client, as crypto/tls does for a Config that names the server. But what the
// server's certificates can cost is bounded: large and many ones are refused, and before those that take long are
// verified, compute is called, whose result ends that. Compute may be nil. Handshake changes the Config. If it returns
// an error, the caller closes the connection.
func Handshake(ctx context.Context, raw net.Conn, cfg *tls.Config,
	compute func(ctx context.Context) (done func())) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, tlsTimeout)
	defer cancel()
	isVerified := !cfg.InsecureSkipVerify
	cfg.InsecureSkipVerify = true // verify does it
	cfg.VerifyPeerCertificate = func(raw [][]byte, _ [][]*x509.Certificate) error {
		chain, err := parseChain(raw)
		if err != nil || !isVerified {
			return err
		}
		if compute != nil && chain.takesLong() {
			defer compute(ctx)()
			if ctx.Err() != nil {
				return ctx.Err() // compute has not waited
			}
		}
		return chain.verify(cfg.ServerName, cfg.RootCAs)
	}
	conn := tls.Client(raw, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return conn, nil
}

// A chain holds the first certificates of a server: its own, and those of authorities.
type chain struct {
	certs []*x509.Certificate
	size  int // of all that the server sent, in bytes
}

func parseChain(raw [][]byte) (chain, error) {
	c := chain{certs: make([]*x509.Certificate, min(len(raw), mostCertificates))}
	for _, cert := range raw {
		c.size += len(cert)
	}
	if c.size > mostChain {
		return c, fmt.Errorf("the server's certificates have %d bytes, and %d are allowed", c.size, mostChain)
	}
	for i := range c.certs {
		var err error
		if c.certs[i], err = x509.ParseCertificate(raw[i]); err != nil {
			return c, err
		}
	}
	return c, nil
}

// takesLong reports whether the certificates may take more than some milliseconds to verify: each authority is tried
// for all that name it, the largest keys take a hundred times as long as usual ones, and long lists of names are
// compared with each other.
func (c chain) takesLong() bool {
	for i, cert := range c.certs {
		switch key := cert.PublicKey.(type) {
		case *ecdsa.PublicKey:
			if key.Curve == elliptic.P521() {
				return true
			}
		case *rsa.PublicKey:
			if key.N.BitLen() > 4096 {
				return true
			}
		}
		for _, earlier := range c.certs[:i] {
			if bytes.Equal(earlier.RawSubject, cert.RawSubject) {
				return true
			}
		}
	}
	return c.size > usualChain
}

// verify does as crypto/tls does without InsecureSkipVerify, but for the first certificates only. crypto/tls would try a
// hundred signatures of the largest keys for one handshake. As there, a resumed session is not verified again.
func (c chain) verify(host string, roots *x509.CertPool) error {
	if len(c.certs) == 0 || host == "" {
		return errors.New("there is no certificate, or no name to verify")
	}
	o := x509.VerifyOptions{Roots: roots, DNSName: host, Intermediates: x509.NewCertPool()}
	for _, authority := range c.certs[1:] {
		o.Intermediates.AddCert(authority)
	}
	if _, err := c.certs[0].Verify(o); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: c.certs, Err: err}
	}
	return nil
}
