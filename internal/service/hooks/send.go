package hooks

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/internal/web/fetch"
)

const (
	// sendTimeout is for one attempt, from the look-up of the name to the end of the answer.
	sendTimeout = 15 * time.Second
	// maxAnswer is how much of an answer is read, so that the connection can be used again.
	maxAnswer = 4 << 10
	// mostRead is how much of TLS is read for one attempt. A receiver could send messages that cost much to compute
	// beside each byte of an answer.
	mostRead = 128 << 10
)

// checkURL says what is wrong with the address of a webhook. Whether its host has a public address is checked when it
// is dialled.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("want a URL such as https://example.com/hook")
	case u.User != nil:
		return errors.New("a URL with a user name or password is not taken: verify the signature instead")
	case len(text) > 2048:
		return errors.New("it is longer than 2048 bytes")
	}
	return nil
}

// sender makes the requests.
type sender struct {
	guarded, open *http.Client // open may reach addresses that are not public
	userAgent     string
	compute       func(ctx context.Context, account string) (done func()) // Options.Compute
	roots         *x509.CertPool                                          // nil means the system's
}

func newSender(o Options) *sender {
	s := &sender{userAgent: o.UserAgent, compute: o.Compute}
	if s.compute == nil {
		s.compute = func(context.Context, string) func() { return func() {} }
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	client := func(d *net.Dialer) *http.Client {
		return &http.Client{
			Transport: &http.Transport{
				// Over HTTP/2 a receiver could send frames without end, also while the connection is idle.
				Protocols: protocols, DialContext: d.DialContext,
				DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
					return s.dialTLS(ctx, d, network, addr)
				},
				MaxIdleConns: 20, MaxIdleConnsPerHost: 1,
				IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	s.guarded, s.open = client(&net.Dialer{Control: fetch.Guard}), client(&net.Dialer{})
	return s
}

// accountKey is the key by which the context of a request has the account that it is made for.
type accountKey struct{}

// dialTLS connects to a receiver, whose certificates cost no more than those of a crawled site may.
func (s *sender) dialTLS(ctx context.Context, d *net.Dialer, network, addr string) (net.Conn, error) {
	raw, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{RootCAs: s.roots, NextProtos: []string{"http/1.1"}}
	cfg.ServerName, _, _ = net.SplitHostPort(addr)
	account, _ := ctx.Value(accountKey{}).(string)
	bounded := &boundedConn{Conn: raw}
	bounded.left.Store(mostRead)
	conn, err := fetch.Handshake(ctx, bounded, cfg, func(ctx context.Context) (done func()) {
		return s.compute(ctx, account)
	})
	if err != nil {
		raw.Close()
		return nil, err
	}
	return conn, nil
}

func (s *sender) close() {
	s.guarded.CloseIdleConnections()
	s.open.CloseIdleConnections()
}

// A boundedConn is a connection below TLS, from which only so many bytes may be read until the next attempt.
type boundedConn struct {
	net.Conn
	left atomic.Int64
}

func (c *boundedConn) Read(p []byte) (int, error) {
	if c.left.Load() <= 0 {
		return 0, errors.New("the receiver sends too much beside its answer")
	}
	n, err := c.Conn.Read(p)
	c.left.Add(-int64(n))
	return n, err
}

// allowAttempt lets an attempt read from its connection, which may have served others.
func allowAttempt(info httptrace.GotConnInfo) {
	if secure, ok := info.Conn.(*tls.Conn); ok {
		secure.NetConn().(*boundedConn).left.Store(mostRead)
	}
}

// send makes one attempt. It returns the status of the answer, 0 if there is none, and why the delivery has failed.
func (s *sender) send(ctx context.Context, j *job, now time.Time) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	signature, err := sign(j.Secret, j.ID, now, j.Body)
	if err != nil {
		return 0, err
	}
	ctx = context.WithValue(ctx, accountKey{}, j.Account)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: allowAttempt})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, j.URL, bytes.NewReader(j.Body))
	if err != nil {
		return 0, err
	}
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {s.userAgent},
		headerID: {j.ID}, headerTimestamp: {strconv.FormatInt(now.Unix(), 10)}, headerSignature: {signature},
	}
	client := s.guarded
	if j.AllowPrivate {
		client = s.open
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, explain(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols { // its body is the connection, which does not end with ctx
		_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer)
	}
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return resp.StatusCode, nil
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return resp.StatusCode, fmt.Errorf("the receiver answered %d; redirects are not followed: change the "+
			"webhook's URL", resp.StatusCode)
	}
	return resp.StatusCode, fmt.Errorf("the receiver answered %d; want 2xx", resp.StatusCode)
}

// explain is an error of net/http without the URL, which the reader knows, and without addresses, which the reader must
// not learn.
func explain(err error) error {
	if _, ok := errors.AsType[*fetch.AddressError](err); ok {
		return errors.New("the address is not public; an admin can allow it for this webhook")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v", sendTimeout)
	}
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = of.Err
	}
	return fetch.WithoutAddresses(err)
}
