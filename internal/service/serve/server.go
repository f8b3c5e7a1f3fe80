package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/results/pageindex"
	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/hooks"
	"github.com/mapwright/mapwright/internal/service/hosts"
	"github.com/mapwright/mapwright/internal/service/schedules"
)

// Options are what a Server needs.
type Options struct {
	Service   *service.Service
	Schedules *schedules.Schedules
	Hooks     *hooks.Hooks
	Hosts     *hosts.Hosts
	Version   string       // of the program
	Log       *slog.Logger // nil means none

	// PublicURL is where users reach the server if a proxy stands before it: it sets the base path, the allowed host
	// and whether cookies are Secure. Nil means that there is no proxy.
	PublicURL *url.URL
	// Listen is the address that the server listens on; its name is an allowed host.
	Listen string
	// TLS says that the server itself speaks TLS.
	TLS bool
	// TrustedProxies are the addresses whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	// Connections is how many connections the server has at once; zero means DefaultConnections.
	Connections int
	// RatePerKey is how many requests per second a key may make; zero means DefaultRate, a negative number no limit.
	RatePerKey float64
	// Figures are the metrics that /metrics shows; nil means new ones.
	Figures *Figures
}

const (
	// DefaultRate is how many requests per second a key may make.
	DefaultRate = 100
	// DefaultConnections is how many connections a server has at once.
	DefaultConnections = 4096
)

// Server answers requests.
type Server struct {
	Options
	base     string   // path below which everything is; empty, or with a leading and without a trailing slash
	secure   bool     // users reach the server by https
	names    []string // that requests may have in their Host header
	origins  *http.CrossOriginProtection
	limits   *rateLimits
	streams  *streams
	metrics  http.Handler
	document func() (openAPI, error) // makes the OpenAPI document at the first call
	indexes  pageindex.Cache
	sent     sentFiles
	// has one for each answer that is being compressed
	compressed chan struct{}

	api       *http.ServeMux     // the routes of openapi.yaml
	pages     http.Handler       // a mux of the other routes
	templates *template.Template // of pages
	assets    *assets
	history   *history
	live      *liveCache
	liveOf    func(id string) *monitor.Live // the status of a running crawl; nil for another one

	drain    sync.Once
	draining chan struct{} // closed by Drain
}

// New makes a server.
func New(o Options) (*Server, error) {
	o.Log, o.Figures = cmp.Or(o.Log, slog.New(slog.DiscardHandler)), cmp.Or(o.Figures, NewFigures())
	o.Connections = cmp.Or(o.Connections, DefaultConnections)
	s := &Server{Options: o, secure: o.TLS, names: metrics.HostNames(o.Listen),
		limits: newRateLimits(o.RatePerKey, o.Connections/shareOfClient), draining: make(chan struct{}),
		origins: http.NewCrossOriginProtection(), api: http.NewServeMux(), assets: newAssets(),
		compressed: make(chan struct{}, mostCompressed)}
	if o.Schedules != nil {
		o.Schedules.LimitBy(func(account string) bool {
			_, ok := s.limits.changes.take(account)
			return ok
		})
	}
	if u := o.PublicURL; u != nil {
		s.names = append(s.names, u.Hostname())
		s.base = strings.TrimSuffix(path.Clean("/"+u.Path), "/")
		s.secure = s.secure || u.Scheme == "https"
		if err := s.origins.AddTrustedOrigin(u.Scheme + "://" + u.Host); err != nil {
			return nil, fmt.Errorf("public URL: %w", err)
		}
	}
	var err error
	if s.templates, err = ui.Parse(files, "templates/*.tmpl"); err != nil {
		return nil, fmt.Errorf("read the templates of pages: %w", err)
	}
	s.document = sync.OnceValues(func() (openAPI, error) { return newOpenAPI(s.base) })
	s.streams, s.live, s.history = newStreams(s), newLiveCache(s), newHistory(s)
	s.liveOf = func(id string) *monitor.Live { return s.Service.Crawls.Live(id) }
	s.indexes.Make = o.Service.Crawls.MakeIndex
	s.metrics = s.Figures.handler(s)
	for _, route := range s.routes() {
		s.api.Handle(route.method+" "+route.path, s.serve(route, false))
	}
	pages := http.NewServeMux()
	for _, route := range pageRoutes() {
		pages.Handle(route.method+" "+route.path, s.serve(route, true))
	}
	pages.Handle("GET /assets/{version}/{name}", s.assets)
	pages.Handle("/", s.serve(route{scope: service.ScopeRead, handle: (*call).noPage}, true))
	s.pages = pages
	return s, nil
}

// Base is the path below which everything is.
func (s *Server) Base() string { return s.base }

// LoginLink is the address at which a person uses the token of a login. Address is where the server listens.
func (s *Server) LoginLink(address, token string) string {
	if s.PublicURL != nil {
		address = s.PublicURL.String()
	}
	return LoginLink(address, token)
}

// LoginLink is the address at which a person uses the token of a login, for a server that people reach under an address
// with its base path.
func LoginLink(address, token string) string {
	return strings.TrimSuffix(address, "/") + "/login?token=" + url.QueryEscape(token)
}

// Drain ends event streams, and makes /readyz answer 503.
func (s *Server) Drain() { s.drain.Do(func() { close(s.draining) }) }

// Run sends samples to event streams, keeps the figures of running crawls for their charts, forgets what no request has
// used for a while, and ends answers whose files are not kept or whose keys have ended, until ctx ends.
func (s *Server) Run(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			s.streams.sample(ctx)
			s.history.sample(now)
			s.live.sweep(now)
			s.indexes.Sweep(now, keepUnused)
			s.sent.sweep()
		case <-ctx.Done():
			return
		}
	}
}

const (
	sampleEvery = time.Second
	keepUnused  = time.Minute // page indexes and live parts
)

// Close closes files that are kept open. No request may come after it.
func (s *Server) Close() { s.indexes.Close() }

type requestIDKey struct{}

// requestID is the id of a request, for the log.
func requestID(r *http.Request) string {
	id, _ := r.Context().Value(requestIDKey{}).(string)
	return id
}

// handler answers all requests.
func (s *Server) handler() http.Handler {
	return http.HandlerFunc(func(plain http.ResponseWriter, r *http.Request) {
		if !connectionOf(r.Context()).handle() {
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), requestIDKey{}, rand.Text()))
		w, began := newAnswer(plain, r), time.Now()
		defer w.finish()
		defer func() {
			if v := recover(); v != nil && v != http.ErrAbortHandler {
				s.Log.Error("panic in a request", "request", requestID(r), "path", r.URL.Path, "panic", v, "stack",
					string(debug.Stack()))
				if w.began {
					panic(http.ErrAbortHandler) // the client must not take what it has for the whole
				}
				s.fail(w, r, fmt.Errorf("panic: %v", v))
			}
			if w.Header().Get("Content-Type") != eventKind {
				s.Figures.see(r.Method, w.status, time.Since(began))
			}
		}()
		secureHeaders(w.Header(), s.secure)
		w.receive(r)
		if !metrics.IsServed(r.Host, s.names) {
			s.fail(w, r, refuse(service.ErrHost,
				"use an address, localhost, the name given to --listen, or that of --public-url"))
			return
		}
		if strings.Count(r.URL.RawQuery, "&") >= mostFields {
			s.fail(w, r, refuse(service.ErrInvalid, "the query has too many parameters"))
			return
		}
		if strings.Contains(r.Header.Get("Range"), ",") {
			r.Header.Del("Range") // many parts take as long as many answers; a server may send the whole
		}
		s.route(w, r)
	})
}

// route gives a request to its route, or to the pages.
func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	notFound := refuse(service.ErrNotFound, "there is nothing at this address; /openapi.json lists what there is")
	below, ok := strings.CutPrefix(r.URL.Path, s.base)
	if ok && below == "" && s.base != "" {
		http.Redirect(w, r, s.base+"/", http.StatusPermanentRedirect)
		return
	}
	if raw := r.URL.RawPath; !ok || !isClean(below) || raw != "" && !strings.HasPrefix(raw, s.base+"/") {
		s.fail(w, r, notFound)
		return
	}
	if s.base != "" {
		inner := *r.URL
		inner.Path, inner.RawPath = below, strings.TrimPrefix(r.URL.RawPath, s.base)
		r = r.WithContext(r.Context()) // a copy
		r.URL = &inner
	}
	if s.hasRoute(r) {
		s.api.ServeHTTP(w, r)
	} else if methods := s.methods(r); len(methods) > 0 {
		w.Header().Set("Allow", strings.Join(methods, ", "))
		s.fail(w, r, refuse(service.ErrMethod, "allowed here: "+strings.Join(methods, ", ")))
	} else if strings.HasPrefix(below, "/v1/") {
		s.fail(w, r, notFound)
	} else {
		s.pages.ServeHTTP(w, r)
	}
}

// isClean says whether a path has no empty, "." or ".." segments.
func isClean(p string) bool {
	return p == "/" || p != "//" && strings.HasPrefix(p, "/") && path.Clean(p) == strings.TrimSuffix(p, "/")
}

// hasRoute reports whether a route of the API answers a request. The route of files answers for names of files only, so
// that the addresses of commands, such as …/pause, are not among them.
func (s *Server) hasRoute(r *http.Request) bool {
	_, pattern := s.api.Handler(r)
	if strings.HasSuffix(pattern, "/{part}") {
		return mediaTypeOf(path.Base(r.URL.Path)) != ""
	}
	return pattern != ""
}

// methods are the methods that the address of a request has.
func (s *Server) methods(r *http.Request) (all []string) {
	for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete} {
		other := *r
		other.Method = m
		if s.hasRoute(&other) {
			all = append(all, m)
		}
	}
	return all
}

// secureHeaders are set on every answer. Pages that need more than this policy set their own.
func secureHeaders(h http.Header, secure bool) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if secure {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// Bounds on clients. An answer has answerTime, and each piece of a file or a stream its own time.
const (
	headerTime = 10 * time.Second // for the head of a request to arrive
	idleTime   = 2 * time.Minute  // between two requests of a connection
	maxHeader  = 32 << 10         // bytes of the head of a request
	mostFields = 500              // of a query, and of a form; short ones take a hundred times as long as their bytes
)

// HTTP is an HTTP server with bounds that no client can exceed, for a listener that Limit has made, or for a TLS
// listener around it. It speaks HTTP/1.1 alone: an HTTP/2 client decides for each stream when its answer is sent, which
// the bounds on connections do not see. The caller runs and closes it.
func (s *Server) HTTP() *http.Server {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	return &http.Server{
		Protocols: protocols,
		Handler:   s.handler(), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ConnContext: withConnection,
		// It answers "OPTIONS *" outside of Handler.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug), // what bad clients do
	}
}
