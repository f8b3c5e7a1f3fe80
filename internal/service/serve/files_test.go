package serve

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mapwright/mapwright/internal/service"
)

// A file that is being sent is sent on after a recrawl has replaced it, but not after a second one has, nor after the
// crawl was deleted: clients that are slow would keep it on the disk. It is not sent on after its key was revoked.
func TestFilesThatAreNotKept(t *testing.T) {
	t.Parallel()
	replace := func(path string) error {
		if err := os.WriteFile(path+".tmp", []byte("another\n"), 0o600); err != nil {
			return err
		}
		return os.Rename(path+".tmp", path)
	}
	for name, c := range map[string]struct {
		happens []func(path string) error
		revokes bool
		gzip    string
		isSent  bool
	}{
		"nothing":            {isSent: true},
		"a recrawl":          {happens: []func(string) error{replace}, isSent: true},
		"two recrawls":       {happens: []func(string) error{replace, replace}},
		"deletion":           {happens: []func(string) error{os.Remove}},
		"recrawl, deletion":  {happens: []func(string) error{replace, os.Remove}},
		"revoked key":        {revokes: true},
		"deletion, gzip":     {happens: []func(string) error{os.Remove}, gzip: "Accept-Encoding: gzip\r\n"},
		"two recrawls, gzip": {happens: []func(string) error{replace, replace}, gzip: "Accept-Encoding: gzip\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sitemap.jsonl")
			text := make([]byte, 1<<20)
			for i := range text { // which gzip leaves long
				text[i] = byte(i * i * i >> 7)
			}
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			inBubble(t, func(t *testing.T, s *Server, p *pipes) {
				svc, err := service.Open(t.Context(), service.Options{Dir: t.TempDir(), RecordsOnly: true})
				if err != nil {
					t.Fatal(err)
				}
				defer svc.Close()
				admin := &service.Caller{System: "test", Scopes: []service.Scope{service.ScopeAdmin}}
				key, err := svc.Accounts.CreateKey(t.Context(), admin, service.Key{})
				if err != nil {
					t.Fatal(err)
				}
				if c.revokes {
					c.happens = append(c.happens, func(string) error {
						return svc.Accounts.RevokeKey(t.Context(), admin, "", key.ID)
					})
				}
				s.Service = svc
				s.pages = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					call := &call{Server: s, w: w, r: r, ctx: r.Context(), endTurn: connectionOf(r.Context()).pause,
						caller: &service.Caller{Account: service.Account{ID: "a"}},
						cred:   credential{secret: key.Secret}}
					if err := call.sendFile(&service.Crawl{}, path, linesKind); err != nil {
						t.Error(err)
					}
				})
				conn := p.dial()
				defer conn.Close()
				_, err = io.WriteString(conn, "GET /file HTTP/1.1\r\nHost: localhost\r\n"+c.gzip+"\r\n")
				if err != nil {
					t.Fatal(err)
				}
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, happens := range append(c.happens, func(string) error { return nil }) {
					synctest.Wait() // for a client that does not read
					if err := happens(path); err != nil {
						t.Error(err)
					}
					s.sent.sweep()
				}
				n, err := io.Copy(io.Discard, res.Body)
				if c.isSent && (err != nil || n != int64(len(text))) {
					t.Errorf("%d bytes, %v", n, err)
				}
				if !c.isSent && err == nil {
					t.Errorf("all %d bytes were sent", n)
				}
				if synctest.Wait(); len(s.sent.all) > 0 {
					t.Error("the answer has not ended")
				}
			})
		})
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	for _, c := range []struct {
		text  string
		lines int
		want  string
	}{
		{"", 5, ""},
		{"a\n", 1, "a\n"},
		{"a\nb\nc\n", 2, "b\nc\n"},
		{"a\nb\nc\n", 9, "a\nb\nc\n"},
		{"a\nb\nunfinished", 2, "b\nunfinished"},
		{strings.Repeat("x", 5<<20) + "\nlast\n", 3, "last\n"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tail(f, c.lines)
		if err != nil || string(got) != c.want {
			t.Errorf("%d lines of %.20q: %q, %v", c.lines, c.text, got, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
