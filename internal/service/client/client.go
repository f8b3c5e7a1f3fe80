// Package client uses the HTTP API of a server that 'mapwright serve' runs.
//
// A Client is made with New and needs no Close. It is safe for any number of goroutines. What the server refuses is an
// *Error. Requests that may be repeated are repeated a few times when the server cannot be reached or asks to wait.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/service"
)

// Options say which server is used, and how.
type Options struct {
	URL  string       // of the server, with its base path, such as http://127.0.0.1:8080
	Key  string       // sent as a bearer token
	HTTP *http.Client // nil means one with a time-out for connections and headers, and none for bodies
	Lost func(error)  // called when a stream of events breaks, before it is opened again; may be nil
}

// Client talks to one server.
type Client struct {
	o    Options
	base *url.URL
}

const (
	attempts   = 5
	headerTime = 2 * time.Minute // until the headers of an answer have come
	firstPause = 200 * time.Millisecond
	maxPause   = 30 * time.Second
	maxAnswer  = 256 << 20 // bytes of an answer that is decoded
)

// New makes a client.
func New(o Options) (*Client, error) {
	base, err := url.Parse(o.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("server %q is not an http or https URL", o.URL)
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	if o.HTTP == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.ResponseHeaderTimeout = headerTime
		o.HTTP = &http.Client{Transport: transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return &Client{o, base}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.o.HTTP.CloseIdleConnections() }

// Error is the document of a request that the server refused.
type Error struct{ service.Document }

// Error implements error.
func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString(cmp.Or(e.Detail, e.Title, http.StatusText(e.Status)))
	for _, f := range e.Errors {
		fmt.Fprintf(&text, "; %s: %s", f.Field, f.Detail)
	}
	if len(e.Allowed) > 0 {
		fmt.Fprintf(&text, " (allowed now: %v)", e.Allowed)
	}
	return text.String()
}

// call is one request.
type call struct {
	method string
	path   string // below the base path, with escapes
	query  url.Values
	header http.Header
	body   any  // sent as JSON unless nil
	repeat bool // it may be sent again after an error of the network
}

// send sends a request, and returns an answer with a status below 300. The caller closes its body.
func (c *Client) send(ctx context.Context, in call) (*http.Response, error) {
	var body []byte
	if in.body != nil {
		text, err := json.Marshal(in.body)
		if err != nil {
			return nil, err
		}
		body = text
	}
	repeat := in.repeat || in.method == http.MethodGet
	for n, pause := 1, firstPause; ; n, pause = n+1, min(2*pause, maxPause) {
		res, wait, err := c.once(ctx, in, body)
		if err == nil || n == attempts || ctx.Err() != nil || wait < 0 || wait == 0 && !repeat {
			return res, err
		}
		select {
		case <-time.After(max(pause, min(wait, maxPause))):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// once sends a request once. If that fails, wait says how long the server asks to wait: negative means that another
// attempt is of no use, zero that the network failed.
func (c *Client) once(ctx context.Context, in call, body []byte) (_ *http.Response, wait time.Duration, _ error) {
	address := c.base.String() + in.path
	if len(in.query) > 0 {
		address += "?" + in.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, in.method, address, bytes.NewReader(body))
	if err != nil {
		return nil, -1, err
	}
	maps.Copy(req.Header, in.header)
	if in.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.o.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.o.Key)
	}
	res, err := c.o.HTTP.Do(req)
	if err != nil {
		return nil, 0, err
	}
	if res.StatusCode < 300 {
		return res, 0, nil
	}
	defer res.Body.Close()
	wait = -1
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable {
		seconds, err := strconv.Atoi(res.Header.Get("Retry-After"))
		if err == nil && seconds >= 0 {
			wait = max(time.Duration(seconds)*time.Second, 1)
		}
	}
	return nil, wait, problemOf(res)
}

// problemOf reads the error of an answer.
func problemOf(res *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return err
	}
	e := &Error{}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if kind != "application/problem+json" || json.Unmarshal(text, e) != nil {
		e.Detail = "the server answered " + res.Status + ", which is no answer of Mapwright: check its address"
	}
	e.Status = res.StatusCode
	return e
}

// do sends a request and decodes the answer into out, unless out is nil.
func (c *Client) do(ctx context.Context, in call, out any) error {
	res, err := c.send(ctx, in)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(out); err != nil {
		return fmt.Errorf("read the answer of %s: %w", in.path, err)
	}
	return nil
}

// Do sends a request for which there is no method. Body is sent as JSON unless it is nil; the answer is decoded into
// out unless that is nil.
func (c *Client) Do(ctx context.Context, method, path string, body, out any) error {
	return c.do(ctx, call{method: method, path: path, body: body}, out)
}

// IsNotFound says whether the server does not know the thing that was asked for.
func IsNotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusNotFound
}
