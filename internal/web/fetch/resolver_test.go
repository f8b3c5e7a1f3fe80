package fetch

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// newTestResolver makes a systemResolver whose servers are a function over pipes, and counts its open sockets.
// The function returns nil to say nothing.
func newTestResolver(t *testing.T, answer func(q dnsmessage.Question) *dnsmessage.RCode, dialErr error) (
	s *systemResolver, open *atomic.Int32) {
	s, open = newSystemResolver(), &atomic.Int32{}
	s.r.Dial = watchedDial(func(context.Context, string, string) (net.Conn, error) {
		if dialErr != nil {
			return nil, dialErr
		}
		client, server := net.Pipe()
		open.Add(1)
		go func() {
			defer open.Add(-1)
			defer server.Close()
			serveDNS(t, server, answer)
		}()
		return client, nil
	})
	return s, open
}

// serveDNS speaks DNS over a stream.
func serveDNS(t *testing.T, c net.Conn, answer func(q dnsmessage.Question) *dnsmessage.RCode) {
	for {
		size := make([]byte, 2)
		if _, err := io.ReadFull(c, size); err != nil {
			return
		}
		query := make([]byte, int(size[0])<<8|int(size[1]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(query); err != nil {
			t.Error(err)
			return
		}
		code := answer(m.Questions[0])
		if code == nil {
			continue
		}
		m.Response, m.RCode, m.Additionals = true, *code, nil
		if *code == dnsmessage.RCodeSuccess && m.Questions[0].Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: dnsmessage.TypeA,
					Class: dnsmessage.ClassINET, TTL: 60},
				Body: &dnsmessage.AResource{A: [4]byte{8, 8, 8, 8}},
			}}
			if strings.HasPrefix(m.Questions[0].Name.String(), "long.") {
				m.Answers = slices.Repeat(m.Answers, mostAnswer/16)
			}
		}
		out, err := m.Pack()
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := c.Write(append([]byte{byte(len(out) >> 8), byte(len(out))}, out...)); err != nil {
			return
		}
	}
}

// readResolvConf makes a lookup: the first one of the process reads resolv.conf and makes a channel, which must not
// belong to a bubble.
func readResolvConf(t *testing.T) {
	s, _ := newTestResolver(t, nil, syscall.ECONNREFUSED)
	_, _ = s.LookupNetIP(t.Context(), "ip", "a.example.")
}

func TestSystemResolver(t *testing.T) {
	code := func(c dnsmessage.RCode) *dnsmessage.RCode { return &c }
	all := func(c *dnsmessage.RCode) func(dnsmessage.Question) *dnsmessage.RCode {
		return func(dnsmessage.Question) *dnsmessage.RCode { return c }
	}
	tests := []struct {
		name   string
		answer func(q dnsmessage.Question) *dnsmessage.RCode
		dial   error
		found  bool
		ours   bool
	}{
		{name: "found", answer: all(code(dnsmessage.RCodeSuccess)), found: true},
		{name: "no such name", answer: all(code(dnsmessage.RCodeNameError))},
		{name: "zone broken", answer: all(code(dnsmessage.RCodeServerFailure))},
		{name: "refused", answer: all(code(dnsmessage.RCodeRefused))},
		{name: "silent about this name", answer: func(q dnsmessage.Question) *dnsmessage.RCode {
			if q.Type == dnsmessage.TypeNS {
				return code(dnsmessage.RCodeServerFailure)
			}
			return nil
		}},
		{name: "silent", answer: all(nil), ours: true},
		{name: "no route to the server", dial: os.NewSyscallError("connect", syscall.ENETUNREACH), ours: true},
		{name: "no server", dial: os.NewSyscallError("connect", syscall.ECONNREFUSED), ours: true},
		{name: "no descriptors", dial: os.NewSyscallError("socket", syscall.EMFILE), ours: true},
	}
	readResolvConf(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newTestResolver(t, tt.answer, tt.dial)
				// resolv.conf says how long to wait for a server
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				addrs, err := s.LookupNetIP(ctx, "ip", "a.example.")
				if (err == nil) != tt.found || tt.found && (len(addrs) != 1 || addrs[0].Unmap().String() != "8.8.8.8") {
					t.Errorf("%v, %v; want found %v", addrs, err, tt.found)
				}
				if isOurs(err) != tt.ours {
					t.Errorf("%v: ours %v, want %v", err, isOurs(err), tt.ours)
				}
				if _, ok := errors.AsType[*net.DNSError](err); err != nil && !ok {
					t.Errorf("error %T, want a *net.DNSError", err)
				}
			})
		})
	}
}

// A lookup that is given up closes its sockets at once: others have counted on them.
func TestSystemResolverGivenUp(t *testing.T) {
	readResolvConf(t)
	synctest.Test(t, func(t *testing.T) {
		s, open := newTestResolver(t, func(dnsmessage.Question) *dnsmessage.RCode { return nil }, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		time.AfterFunc(time.Millisecond, cancel)
		if _, err := s.LookupNetIP(ctx, "ip", "a.example."); err == nil {
			t.Error("no error")
		}
		synctest.Wait()
		if n := open.Load(); n != 0 {
			t.Errorf("%d of its sockets are open", n)
		}
	})
}

// Go's resolver makes a socket for each address of an answer: names with thousands of them are not found.
func TestSystemResolverLongAnswer(t *testing.T) {
	readResolvConf(t)
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTestResolver(t, func(dnsmessage.Question) *dnsmessage.RCode { return new(dnsmessage.RCode) }, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if addrs, err := s.LookupNetIP(ctx, "ip", "long.example."); err == nil || isOurs(err) {
			t.Errorf("%d addresses, %v", len(addrs), err)
		}
	})
}
