package testweb

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// BenchmarkServe measures what a page costs the server's process: system calls,
// statistics and all. server-µs/page is the figure to look at; ns/op is client and server
// together.
func BenchmarkServe(b *testing.B) {
	for _, size := range []int{10 << 10, 200 << 10} {
		for _, hosts := range []int{1, 500} {
			b.Run(fmt.Sprintf("size=%d/hosts=%d/conns=16", size, hosts), func(b *testing.B) {
				benchServe(b, size, hosts, 16, "")
			})
		}
	}
	b.Run("size=10240/hosts=1/conns=16/changes", func(b *testing.B) {
		benchServe(b, 10<<10, 1, 16, `, "changes": {"sometimes": 1, "rate": 0.01}, "generation": 5`)
	})
}

func benchServe(b *testing.B, size, hosts, conns int, more string) {
	const pages = 2000
	addr, admin := serveElsewhere(b, fmt.Sprintf(
		`{"hosts": %d, "pages": %d, "page_size": %d, "admin_addr": "127.0.0.1:0"%s}`, hosts, pages, size, more))
	clients := make([]*benchClient, conns)
	for i := range clients {
		clients[i] = newBenchClient(b, addr)
	}
	before := serverCPU(b, admin)
	b.ReportAllocs()
	b.SetBytes(int64(conns * size))
	n := 0
	for b.Loop() {
		for _, c := range clients {
			n++
			page := 1 + n%(pages-1)
			c.send(b, n%hosts, page, "")
		}
		for _, c := range clients {
			c.receive(b, size)
		}
	}
	b.ReportMetric(float64(serverCPU(b, admin)-before)/float64(n)/1e3, "server-µs/page")
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "pages/s")
}

// serveElsewhere runs a server in a process of its own until the benchmark ends.
func serveElsewhere(b *testing.B, config string) (addr, admin string) {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveEnv+"="+config)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	})
	var at struct{ Addr, Admin string }
	if err := json.NewDecoder(out).Decode(&at); err != nil {
		b.Fatal(err)
	}
	return at.Addr, at.Admin
}

func serverCPU(b *testing.B, admin string) time.Duration {
	b.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + admin + "/usage")
	if err != nil {
		b.Fatal(err)
	}
	defer r.Body.Close()
	var u Usage
	if err := json.NewDecoder(r.Body).Decode(&u); err != nil {
		b.Fatal(err)
	}
	return u.CPU
}

// benchClient does as little as a client can.
type benchClient struct {
	nc  net.Conn
	r   *bufio.Reader
	req []byte
}

func newBenchClient(b *testing.B, addr string) *benchClient {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { nc.Close() })
	return &benchClient{nc: nc, r: bufio.NewReaderSize(nc, 32<<10)}
}

// send asks for a page; extra are header lines, each with its line end.
func (c *benchClient) send(b *testing.B, host, page int, extra string) {
	c.req = append(c.req[:0], "GET /d"...)
	c.req = strconv.AppendInt(c.req, int64(page%dirs), 10)
	c.req = append(c.req, '/')
	c.req = appendPageName(c.req, page)
	c.req = append(c.req, " HTTP/1.1\r\nHost: h"...)
	c.req = strconv.AppendInt(c.req, int64(host), 10)
	c.req = append(c.req, ".test\r\nUser-Agent: bench\r\nAccept-Encoding: gzip\r\n"...)
	c.req = append(append(c.req, extra...), "\r\n"...)
	if _, err := c.nc.Write(c.req); err != nil {
		b.Fatal(err)
	}
}

func (c *benchClient) receive(b *testing.B, size int) {
	c.receiveStatus(b, "200")
	if _, err := io.CopyN(io.Discard, c.r, int64(size)); err != nil {
		b.Fatal(err)
	}
}

// receiveStatus reads the head of an answer.
func (c *benchClient) receiveStatus(b *testing.B, status string) {
	for first := true; ; first = false {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			b.Fatal(err)
		}
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 "+status)) {
			b.Fatalf("answer %q", line)
		}
		if len(line) == 2 {
			return
		}
	}
}

// BenchmarkNotModified measures an answer to a condition that holds, of a million pages that change now and then.
func BenchmarkNotModified(b *testing.B) {
	const pages, conns, config = 1_000_000, 16,
		`{"pages": 1000000, "changes": {"sometimes": 1, "rate": 0.01}, "generation": 5, "admin_addr": "127.0.0.1:0"}`
	addr, admin := serveElsewhere(b, config)
	clients := make([]*benchClient, conns)
	for i := range clients {
		clients[i] = newBenchClient(b, addr)
	}
	before := serverCPU(b, admin)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for _, c := range clients {
			n++
			c.send(b, 0, 1+n%(pages-1), "If-None-Match: *\r\n")
		}
		for _, c := range clients {
			c.receiveStatus(b, "304")
		}
	}
	b.ReportMetric(float64(serverCPU(b, admin)-before)/float64(n)/1e3, "server-µs/page")
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "pages/s")
}

// BenchmarkPage measures the rendering alone.
func BenchmarkPage(b *testing.B) {
	for _, size := range []int{10 << 10, 200 << 10} {
		b.Run(fmt.Sprintf("size=%d/links=30", size), func(b *testing.B) {
			w, err := newWeb(Config{Pages: 50_000, PageSize: size}.withDefaults(), "")
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(size))
			var buf []byte
			n := 0
			for b.Loop() {
				buf = w.appendPage(buf[:0], ref{0, n % 50_000}, 0)
				n++
			}
		})
	}
}

// BenchmarkExpected measures the walk over the graph, per URL.
func BenchmarkExpected(b *testing.B) {
	s, err := StartOn(Config{Hosts: 20, Pages: 500, CrossHost: 0.1}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		all, err := s.Expected(Crawl{})
		if err != nil {
			b.Fatal(err)
		}
		for range all {
			n++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/url")
}
