package api

import (
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

// Bounds on clients. A body has bodyTime, an answer answerTime, and each piece of a file or a stream its own time.
const (
	headerTime  = 10 * time.Second // for the head of a request to arrive
	idleTime    = 2 * time.Minute  // between two requests of a connection
	maxHeader   = 32 << 10         // bytes of the head of a request
	mostClients = 4096             // connections at once
)

// HTTP is an HTTP server with bounds that no client can exceed. The caller runs and closes it.
func (s *Server) HTTP() *http.Server {
	return &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // what bad clients do
	}
}

// Limit bounds the connections of a listener.
func Limit(l net.Listener) net.Listener { return netutil.LimitListener(l, mostClients) }
