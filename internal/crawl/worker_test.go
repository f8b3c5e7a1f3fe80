package crawl

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/config"
)

// Connections that are kept alive end with the crawl that made them, not with the server's timeout.
func TestConnectionsEndWithTheCrawl(t *testing.T) {
	var open atomic.Int64
	closed := make(chan struct{}, 100)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
			closed <- struct{}{}
		}
	}
	server.Start()
	defer server.Close()
	s := config.Defaults(config.OwnSite)
	s.MaxWorkers, s.BloomCapacity = 4, 1000
	crawlAll(t, s, server.URL+"/")
	for late := time.After(2 * time.Minute); open.Load() > 0; {
		select {
		case <-closed:
		case <-late:
			t.Fatalf("%d connections are still open", open.Load())
		}
	}
}
