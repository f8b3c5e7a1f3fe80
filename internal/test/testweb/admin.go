package testweb

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// admin serves statistics and expectation to other processes:
//
//	GET  /stats       Stats; with ?host=NAME the HostStats of one
//	POST /reset       Server.Reset
//	GET  /expected    one Expectation a line; see parseCrawl for the parameters
//	GET  /traps       all Traps
//	GET  /generation  Server.Generation
//	POST /generation  Server.SetGenerationAt; ?n=NUMBER, and &at=TIME as in RFC 3339 if it is not to be the default
//	GET  /recrawl     Server.ExpectedRecrawl, one Recrawled a line; ?generations=0,1,2 and the parameters of /expected
//	GET  /start-urls  Server.StartURLs, one a line
//	GET  /log         all Requests, if they are kept
//	GET  /usage       CPU time of this process so far
//	GET  /ca.pem      the certificate authority, if there is TLS
type admin struct {
	s    *Server
	addr string
	http http.Server
	done chan struct{}
}

func startAdmin(s *Server, addr string) (*admin, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	a := &admin{s: s, addr: l.Addr().String(), done: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stats", a.stats)
	mux.HandleFunc("POST /reset", func(http.ResponseWriter, *http.Request) { s.Reset() })
	mux.HandleFunc("GET /expected", a.expected)
	mux.HandleFunc("GET /generation", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.Generation()) })
	mux.HandleFunc("POST /generation", a.setGeneration)
	mux.HandleFunc("GET /recrawl", a.recrawl)
	mux.HandleFunc("GET /traps", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.Traps()) })
	mux.HandleFunc("GET /log", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.Log()) })
	mux.HandleFunc("GET /usage", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, Usage{CPUTime()}) })
	mux.HandleFunc("GET /start-urls", func(w http.ResponseWriter, _ *http.Request) {
		for _, u := range s.StartURLs() {
			io.WriteString(w, u+"\n")
		}
	})
	mux.HandleFunc("GET /ca.pem", func(w http.ResponseWriter, r *http.Request) {
		if s.authority == nil {
			http.NotFound(w, r)
			return
		}
		w.Write(s.authority.PEM())
	})
	a.http.Handler = mux
	go func() {
		defer close(a.done)
		a.http.Serve(l)
	}()
	return a, nil
}

// close ends the admin server and waits for its goroutine.
func (a *admin) close() error {
	err := a.http.Close()
	<-a.done
	return err
}

// Usage is what a server has cost so far.
type Usage struct {
	CPU time.Duration `json:"cpu"` // of the whole process, user and system
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

func (a *admin) stats(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("host")
	if name == "" {
		writeJSON(w, a.s.Stats())
		return
	}
	host, ok := a.s.web.names.lookup([]byte(name))
	if !ok {
		http.NotFound(w, r)
		return
	}
	writeJSON(w, a.s.HostStats(host))
}

func (a *admin) setGeneration(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.FormValue("n"))
	var at time.Time
	if text := r.FormValue("at"); err == nil && text != "" {
		at, err = time.Parse(time.RFC3339, text)
	}
	if err == nil {
		err = a.s.SetGenerationAt(n, at)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

func (a *admin) expected(w http.ResponseWriter, r *http.Request) {
	var list iter.Seq[Expectation]
	c, err := parseCrawl(r.URL.Query())
	if err == nil {
		list, err = a.s.Expected(c)
	}
	writeLines(w, list, err)
}

func (a *admin) recrawl(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var generations []int
	var errs []error
	for text := range strings.SplitSeq(q.Get("generations"), ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("parameter generations: %w", err))
		}
		generations = append(generations, n)
	}
	q.Del("generations")
	c, err := parseCrawl(q)
	var list iter.Seq[Recrawled]
	if err = errors.Join(append(errs, err)...); err == nil {
		list, err = a.s.ExpectedRecrawl(c, generations...)
	}
	writeLines(w, list, err)
}

// writeLines answers with one value a line, or with the error.
func writeLines[T any](w http.ResponseWriter, list iter.Seq[T], err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	enc := json.NewEncoder(w)
	for v := range list {
		if enc.Encode(v) != nil {
			return
		}
	}
}

// parseCrawl reads a Crawl from parameters with the names of its fields in lower
// case with underscores: start (repeated), scope, no_sitemaps, max_depth,
// follow_nofollow, ignore_robots, robots_strict, timeout, body_limit, max_retries,
// max_redirects.
func parseCrawl(q url.Values) (Crawl, error) {
	c := Crawl{Starts: q["start"], Scope: q.Get("scope")}
	bools := map[string]*bool{
		"no_sitemaps": &c.NoSitemaps, "follow_nofollow": &c.FollowNofollow,
		"ignore_robots": &c.IgnoreRobots, "robots_strict": &c.RobotsStrict,
	}
	ints := map[string]*int{"max_depth": &c.MaxDepth, "max_retries": &c.MaxRetries, "max_redirects": &c.MaxRedirects}
	var errs []error
	for name, values := range q {
		value, err := values[0], error(nil)
		switch {
		case name == "start" || name == "scope":
		case bools[name] != nil:
			*bools[name], err = strconv.ParseBool(value)
		case ints[name] != nil:
			*ints[name], err = strconv.Atoi(value)
		case name == "timeout":
			c.Timeout, err = time.ParseDuration(value)
		case name == "body_limit":
			c.BodyLimit, err = strconv.ParseInt(value, 10, 64)
		default:
			err = errors.New("not known")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("parameter %s: %w", name, err))
		}
	}
	return c, errors.Join(errs...)
}
