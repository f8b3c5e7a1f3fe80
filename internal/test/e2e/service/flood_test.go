package service

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
)

// A server with few file descriptors answers while others hold as many connections as they can, by requests that they
// do not end. An event stream goes on.
func TestManyIdleConnections(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := startUnder(t, []string{"sh", "-c", `ulimit -n 400 && exec "$0" "$@"`}, dir, "--min-free", "0")
	transport := &http.Transport{DisableKeepAlives: true}
	c := &http.Client{Transport: transport, Timeout: patience}
	req := must(http.NewRequestWithContext(t.Context(), "GET", s.url+"/v1/events", nil))(t)
	req.Header.Set("Authorization", "Bearer "+adminKey(t, dir))
	stream := must(c.Do(req))(t)
	defer stream.Body.Close()
	address := s.url[len("http://"):]
	for range 500 {
		conn := must((&net.Dialer{}).DialContext(t.Context(), "tcp", address))(t)
		defer conn.Close()
		// A request that is answered, and half of another. The connections come one after the other: those that come
		// later close the oldest of the same client.
		must(io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nPOST /login HTTP/1.1\r\nHost: "))(t)
		if line := must(bufio.NewReader(conn).ReadString('\n'))(t); line != "HTTP/1.1 200 OK\r\n" {
			t.Fatal(line)
		}
	}
	for range 3 {
		res := must(c.Get(s.url + "/healthz"))(t)
		if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("status %d, %v", res.StatusCode, err)
		}
	}
	s.stop()
	if _, err := io.Copy(io.Discard, stream.Body); err != nil { // a server that stops ends its streams
		t.Errorf("the event stream: %v", err)
	}
}
