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

// Serve listens on addr. /status shows the result of status. /healthz answers 503 with the error of healthy, if there
// is one.
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
	// ErrorLog drops what net/http logs about bad clients.
	s := &Server{listener: l, done: make(chan struct{}), http: &http.Server{Handler: checkHost(addr, mux),
		ReadHeaderTimeout: 5 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(l) // ends with Close
	}()
	return s, nil
}

// checkHost refuses requests for other host names than those of HostNames.
func checkHost(addr string, next http.Handler) http.Handler {
	names := HostNames(addr)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !IsServed(r.Host, names) {
			http.Error(w, "this host name is not served here: use an address, localhost, or the name given to "+
				"--metrics-addr", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// HostNames returns the host names to which a server on addr answers: localhost, and the name in the address. If the
// server listens on all addresses of this machine, it is the machine's name instead.
func HostNames(addr string) []string {
	names := []string{"localhost"}
	if name, _, err := net.SplitHostPort(addr); err == nil && name != "" && !net.ParseIP(name).IsUnspecified() {
		names = append(names, name)
	} else if name, err := os.Hostname(); err == nil {
		names = append(names, name)
	}
	return names
}

// IsServed says whether a request for a host may be answered by a server with such names. Otherwise a web page could
// use the server by a name of its own that it makes resolve to this machine (DNS rebinding). Addresses are always
// accepted: they cannot be made to resolve to another machine.
func IsServed(host string, names []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	return net.ParseIP(host) != nil || slices.ContainsFunc(names,
		func(name string) bool { return strings.EqualFold(name, host) })
}

// Addr is where it listens.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close waits for answers under way, for at most a second, and closes the server.
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
