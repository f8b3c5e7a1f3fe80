package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"

	"github.com/mapwright/mapwright/internal/web/http1"
)

// A Kind is what became of a request that did not end well. Its text is the outcome that a crawl records, except for
// Canceled, which is not an outcome.
type Kind string

const (
	Timeout        Kind = "timeout"
	DNSError       Kind = "dns_error"
	ConnectError   Kind = "connect_error"
	TLSError       Kind = "tls_error"
	ReadError      Kind = "read_error"
	RefusedAddress Kind = "refused_address"
	TooLarge       Kind = "too_large"
	// Canceled means that the caller ended the request: its context ended, or its Wire
	// refused the start. It says nothing about the host.
	Canceled Kind = "canceled"
)

// An Error is why a request did not end well. Every error of Do is one.
type Error struct {
	Kind Kind
	// Ours says that the failure is one of this machine, such as having no file
	// descriptors or no network, and must not be held against the host.
	Ours bool
	// Dropped says that the request was sent over a kept connection, which the server
	// closed before it answered. That happens to healthy servers that close idle
	// connections: the request may be sent again, and the host has not failed.
	Dropped bool
	// Phase is where it happened: dns, connect, tls, headers or body.
	Phase string
	Err   error
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%s)", e.Kind, e.Detail()) }

// Detail is the phase and the cause, without the Kind. A cause that names the phase itself, as those of crypto/tls
// ("tls: …") and of the system's connect ("dial tcp ADDRESS: connect: …") do, is not given it twice.
func (e *Error) Detail() string {
	text := e.Err.Error()
	rest, named := strings.CutPrefix(text, e.Phase)
	if named && (rest == "" || rest[0] == ':' || rest[0] == ' ') || strings.Contains(text, ": "+e.Phase+": ") {
		return text
	}
	return e.Phase + ": " + text
}

func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the Kind of an error of Do, or "" for any other.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return ""
}

// IsOurs reports whether an error of Do is a failure of this machine.
func IsOurs(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Ours
}

// IsDropped reports whether an error of Do has Dropped set.
func IsDropped(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Dropped
}

var (
	errTooLarge = errors.New("larger than the limit")
	errExpands  = fmt.Errorf("%w: it expands to more than %d times the bytes that came", errTooLarge, maxRatio)
	errLayers   = errors.New("body compressed too many times")

	errNoResolver = errors.New("no DNS server answers")
)

// A proxyError is a proxy's refusal to connect to an https host, or its 407 for a request to an http host.
type proxyError struct{ Status int }

func (e *proxyError) Error() string {
	return fmt.Sprintf("proxy answered %d %s", e.Status, http.StatusText(e.Status))
}

// A refusal is the error of a Wire that did not let a request start.
type refusal struct{ err error }

func (e *refusal) Error() string { return "request not sent: " + e.err.Error() }
func (e *refusal) Unwrap() error { return e.err }

// A timeoutError is the cause with which a request is cancelled.
type timeoutError struct{ what string }

func (e *timeoutError) Error() string { return e.what }
func (e *timeoutError) Timeout() bool { return true }

// classify turns whatever net/http and the dialer returned into an Error. It is
// the only place that does.
func (c *call) classify(err error) error {
	e := &Error{Phase: string(c.phase()), Err: err}
	cause := c.cause()
	if cause == http1.ErrDropped {
		err, cause = http1.ErrDropped, nil // net/http would have sent the request again
		e.Err = err
	}
	timeout, timedOut := errors.AsType[*timeoutError](cause)
	pe, phased := errors.AsType[*phaseError](err)
	if phased {
		e.Phase, e.Err = string(pe.phase), pe.err
	}
	_, refused := errors.AsType[*AddressError](err)
	_, notStarted := errors.AsType[*refusal](err)
	switch {
	case refused:
		e.Kind = RefusedAddress
	case notStarted:
		e.Kind = Canceled
	case phased && isFileLimit(err):
		e.Kind, e.Ours = ConnectError, true
		if pe.phase == phaseDNS {
			e.Kind = DNSError
		}
	case timedOut:
		e.Kind, e.Err = Timeout, timeout
		if e.Phase == string(phaseConnect) && c.connect.Load() > 0 {
			e.Phase = string(phaseTLS) // connected, and not yet ready for the request
		}
	case cause != nil:
		e.Kind, e.Err = Canceled, cause
	case errors.Is(err, context.Canceled): // the client was closed
		e.Kind = Canceled
	case errors.Is(err, errTooLarge):
		e.Kind = TooLarge
	case errors.Is(err, http1.ErrDropped):
		e.Kind, e.Dropped = ReadError, true
	case e.Phase == string(phaseDNS):
		e.Kind, e.Ours = DNSError, isOurs(err)
	case isTimeout(err):
		e.Kind = Timeout
	case e.Phase == string(phaseTLS), isTLS(err):
		e.Kind, e.Phase = TLSError, string(phaseTLS)
	case e.Phase == string(phaseConnect):
		e.Kind, e.Ours = ConnectError, isOurs(err)
	default:
		e.Kind = ReadError
	}
	if e.Kind != Canceled && isProxyDown(err) {
		e.Ours = true
		e.Err = fmt.Errorf("the proxy cannot be used: %w", e.Err)
	}
	if c.hideAddresses {
		e.Err = WithoutAddresses(e.Err)
	}
	return e
}

// A plainError is an error with another text.
type plainError struct {
	text string
	err  error
}

func (e *plainError) Error() string { return e.text }
func (e *plainError) Unwrap() error { return e.err }

// maxText bounds the bytes of a text that may quote what a server has sent. A status line, a header or a certificate
// has any number.
const maxText = 500

// WithoutAddresses wraps an error in one whose text is short and has no addresses: not what a name resolves to, nor
// those of the DNS server, the proxy or this machine.
func WithoutAddresses(err error) error {
	cause := err
	for op, ok := errors.AsType[*net.OpError](cause); ok; op, ok = errors.AsType[*net.OpError](cause) {
		cause = op.Err // the text of the operation names both ends
	}
	text := cause.Error()
	if dns, ok := errors.AsType[*net.DNSError](cause); ok {
		text = dns.Err
	}
	if _, ok := errors.AsType[*AddressError](cause); ok {
		text = "the address is not public"
	}
	const between = " ,;()<>=\""
	if len(text) > maxText { // cut between two words: a part of an address would not be known as one
		text = text[:max(0, strings.LastIndexAny(text[:maxText], between))] + "…"
	}
	for _, word := range strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(between, c) }) {
		word = strings.Trim(word, ":.-")
		if _, err := netip.ParseAddrPort(word); err == nil || isAddress(word) {
			text = strings.ReplaceAll(text, word, "(address)")
		}
	}
	return &plainError{text, err}
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return err == nil
}

// isProxyDown reports whether the proxy that the user chose did not accept the connection or its password, which is no
// fault of the host behind it.
func isProxyDown(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "proxyconnect" {
		return true
	}
	pe, ok := errors.AsType[*proxyError](err)
	return ok && pe.Status == http.StatusProxyAuthRequired
}

func isTimeout(err error) bool {
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && t.Timeout()
}

// isTLS recognises errors of TLS that show only after the handshake.
func isTLS(err error) bool {
	if errors.Is(err, http.ErrSchemeMismatch) {
		return true
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && (op.Op == "remote error" || op.Op == "local error") {
		return true // an alert, by which crypto/tls wraps it
	}
	_, cert := errors.AsType[*tls.CertificateVerificationError](err)
	_, header := errors.AsType[tls.RecordHeaderError](err)
	_, host := errors.AsType[x509.HostnameError](err)
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	return cert || header || host || authority
}

// isFileLimit reports whether the system has no file descriptor left.
func isFileLimit(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// isOurs reports whether an error of DNS or of a connection says that this
// machine cannot reach any host, rather than that one host cannot be reached.
//
// Left out on purpose: EHOSTUNREACH, which is what a router near a dead host
// sends; EPERM and EACCES, by which a firewall of ours may forbid one host; every
// lack of a route over IPv6, which is all that a machine without IPv6 can say of a
// host that has nothing else; and a resolver's SERVFAIL, or its silence about one
// name, by which a resolver that works tells of a zone that does not.
func isOurs(err error) bool {
	if isFileLimit(err) || errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM) {
		return true
	}
	if _, dns := errors.AsType[*net.DNSError](err); dns {
		// These come from the socket to the resolver, not from the name.
		return errors.Is(err, errNoResolver) || isNoRoute(err) || errors.Is(err, syscall.ECONNREFUSED) ||
			errors.Is(err, syscall.EHOSTUNREACH)
	}
	return isNoRoute(err) && dialled4(err)
}

// isNoRoute reports whether the system knew no way to an address. It looks the same if no local port is left.
func isNoRoute(err error) bool {
	return errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.ENETDOWN) ||
		errors.Is(err, syscall.EADDRNOTAVAIL)
}

// dialled4 reports whether an error of a connection concerns an IPv4 address.
func dialled4(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok {
		return false
	}
	tcp, ok := op.Addr.(*net.TCPAddr)
	return ok && tcp.IP.To4() != nil
}
