package api

import (
	"log/slog"
	"net/http"
	"time"
)

// Bounds on clients. An answer has answerTime, and each piece of a file or a stream its own time.
const (
	headerTime = 10 * time.Second // for the head of a request to arrive
	idleTime   = 2 * time.Minute  // between two requests of a connection
	maxHeader  = 32 << 10         // bytes of the head of a request
)

// HTTP is an HTTP server with bounds that no client can exceed, for a listener that Limit has made. The caller runs
// and closes it.
func (s *Server) HTTP() *http.Server {
	return &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ConnContext: withConnection,
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // what bad clients do
	}
}
