package testweb

import "net/http"

// Outcomes a crawl records, by the names its output has for them.
const (
	OutcomeOK              = "ok"
	OutcomeRedirect        = "redirect"
	OutcomeRedirectLoop    = "redirect_loop"
	OutcomeHTTPError       = "http_error"
	OutcomeThrottled       = "throttled"
	OutcomeBlockedByRobots = "blocked_by_robots"
	OutcomeTimeout         = "timeout"
	OutcomeConnectError    = "connect_error"
	OutcomeReadError       = "read_error"
	OutcomeTooLarge        = "too_large"
	OutcomeTrap            = "trap"
	OutcomeHostBlocked     = "host_blocked"
)

// verdict is what a correct crawl makes of one URL.
type verdict struct {
	outcomes  []string
	status    int // 0 if there is none, or none to rely on
	indexable bool
	title     string
	to        string // URI on the same host that it redirects to
}

// good reports whether the page was read and its links are found.
func (v verdict) good() bool { return v.outcomes[0] == OutcomeOK }

// redirects reports whether the URL names another as its place.
func (v verdict) redirects() bool {
	return v.outcomes[0] == OutcomeRedirect || v.outcomes[0] == OutcomeRedirectLoop
}

// ok is the verdict on a page like any other.
func ok(title string) verdict {
	return verdict{outcomes: []string{OutcomeOK}, status: http.StatusOK, indexable: true, title: title}
}

// notHTML is the verdict on something that is there but is no page.
func notHTML() verdict {
	return verdict{outcomes: []string{OutcomeOK}, status: http.StatusOK}
}

// verdict says what becomes of a node of a host in a generation.
func (w *web) verdict(r ref, c Crawl, gen int) verdict {
	p, l, down := w.plans[r.host], w.leaf(r.host, r.node), w.plans[r.host].down(gen)
	if !c.IgnoreRobots {
		private := down == nil && (l != nil && l.private && p.robots.readable() || l == nil && w.isDisallowed(r, gen))
		if private || c.RobotsStrict && (p.robots.unreachable() || down != nil) {
			return verdict{outcomes: []string{OutcomeBlockedByRobots}}
		}
	}
	if l != nil && l.verdict != nil {
		if v := l.verdict(c); v.outcomes[0] == OutcomeTrap {
			return v // it is never asked for
		}
	}
	if down != nil {
		return down.verdict()
	}
	if p.outlasts != nil {
		if v := p.outlasts(c); v != nil {
			return *v
		}
	}
	switch {
	case p.same != nil:
		return p.same.verdict(c)
	case l == nil:
		return w.pageVerdict(r, gen)
	case l.verdict != nil:
		return l.verdict(c)
	default:
		return ok("")
	}
}

// pageVerdict says what becomes of a page of the tree, an orphan or a page that has moved.
func (w *web) pageVerdict(r ref, gen int) verdict {
	st := w.state(r, gen)
	switch {
	case st.status >= 400:
		return verdict{outcomes: []string{OutcomeHTTPError}, status: st.status}
	case st.status >= 300:
		return verdict{outcomes: []string{OutcomeRedirect}, status: st.status,
			to: string(w.appendURI(nil, r.host, st.to))}
	}
	original := w.original(r.host, r.node)
	v := ok(string(appendTitleChange(appendTitle(nil, nodeHash(w.cfg.Seed, r.host, original), original), st.title)))
	v.indexable = !st.noindex && !st.elsewhere
	return v
}
