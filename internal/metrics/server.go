package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Server answers over HTTP: /metrics for Prometheus, /status as JSON, /healthz, and pprof under /debug/pprof.
type Server struct {
	listener net.Listener
	http     *http.Server
	done     chan struct{}
}

// Serve listens on addr. Status gives what /status shows; an error from healthy is what /healthz says.
func (m *Metrics) Serve(addr string, status func() any, healthy func() error) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(status()) // a client that went away
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := healthy(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "mapwright: /metrics /status /healthz /debug/pprof/")
	})
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, os.Args[0]) // without the arguments, which may hold secrets
	})
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	// what net/http has to say of bad clients
	s := &Server{listener: l, done: make(chan struct{}), http: &http.Server{Handler: checkHost(addr, mux),
		ReadHeaderTimeout: 5 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(l) // ends with Close
	}()
	return s, nil
}

// checkHost refuses requests for other host names than the one that the server was told to listen on. Otherwise a web
// page could read the metrics by a name of its own that it makes resolve to this machine (DNS rebinding). Addresses and
// localhost are always accepted: they cannot be made to resolve to another machine. So is this machine's name if the
// server listens on all its addresses.
func checkHost(addr string, next http.Handler) http.Handler {
	allowed := []string{"localhost"}
	if name, _, err := net.SplitHostPort(addr); err == nil && name != "" && !net.ParseIP(name).IsUnspecified() {
		allowed = append(allowed, name)
	} else if name, err := os.Hostname(); err == nil {
		allowed = append(allowed, name)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Host
		if host, _, err := net.SplitHostPort(name); err == nil {
			name = host
		}
		name = strings.TrimSuffix(strings.Trim(name, "[]"), ".")
		if net.ParseIP(name) == nil && !slices.ContainsFunc(allowed,
			func(a string) bool { return strings.EqualFold(a, name) }) {
			http.Error(w, "this host name is not served here: use an address, localhost, or the name given to "+
				"--metrics-addr", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Addr is where it listens.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close lets answers under way finish for a moment, then ends.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	<-s.done
	return err
}
