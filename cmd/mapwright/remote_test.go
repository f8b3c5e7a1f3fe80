package main

import (
	"bytes"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// Commands of the service that cannot be done say what is wrong and what to do.
func TestServiceMessages(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, c := range []struct {
		args string
		want []string
		code int
	}{
		{"remote pause --key k", []string{"give its ID", "remote list"}, exitUsage},
		{"remote watch a b --key k", []string{`"b"`, "mapwright remote watch --help"}, exitUsage},
		{"remote nothing", []string{`"nothing"`, "mapwright remote --help"}, exitUsage},
		{"remote list", []string{"no key", keyVariable}, exitUsage},
		{"remote queue --key k --server " + nobody, []string{"cannot reach server " + nobody, "mapwright serve", serverVariable}, exitFailed},
		{"serve --data-dir " + dir + " --listen " + listener.Addr().String(), []string{"cannot listen on " + listener.Addr().String(), "--listen"}, exitUsage},
		{"serve --data-dir " + filepath.Join(dir, "service.db", "x"), []string{"data directory " + dir}, exitFailed},
		{"keys list --data-dir " + filepath.Join(dir, "none"), []string{"has no database of a server", "mapwright serve"}, exitUsage},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), strings.Fields(c.args), nil, stdio{&bytes.Buffer{}, &out, &errs})
		if code != c.code {
			t.Errorf("%s: exit status %d, want %d", c.args, code, c.code)
		}
		for _, text := range c.want {
			if !strings.Contains(errs.String(), text) {
				t.Errorf("%s: %q lacks %q", c.args, errs.String(), text)
			}
		}
	}
}
