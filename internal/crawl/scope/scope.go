// Package scope decides which found URLs belong to a crawl, and counts the others by reason.
package scope

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/traps"
	"github.com/mapwright/mapwright/internal/page"
)

// MaxHops is how many redirects in a row are followed.
const MaxHops = 10

// Scope decides which found URLs belong to the crawl. It is safe for concurrent use; only Extend changes it.
type Scope struct {
	kind    string
	depth   int // --max-depth
	matcher *Matcher
	skip    map[string]bool // extensions, lower case, without the dot
	only    config.HostSet  // empty means any host
	bound   bool            // only is not empty

	// What the start URLs span, by the kind of scope: host names, domains, or directories. There may be millions. Hosts
	// are those of the start URLs. Both are not changed after New.
	starts, hosts map[string]bool

	extended  atomic.Bool // more is not empty; written by add
	mu        sync.RWMutex
	more      map[string]bool       // guarded by mu; what was added
	moreHosts map[string]bool       // guarded by mu; its hosts that are not in hosts
	firsts    map[string]weburl.URL // guarded by mu; the first target that was added, by host or directory
	history   atomic.Pointer[History]
}

// New compiles the settings, and makes the scope of the start URLs and of what their redirects have brought into it.
func New(s *config.Settings, starts []weburl.URL, extensions ...weburl.URL) (*Scope, error) {
	sc := &Scope{kind: s.Scope, depth: s.MaxDepth, skip: map[string]bool{},
		starts: make(map[string]bool, len(starts)), more: map[string]bool{}, moreHosts: map[string]bool{},
		firsts: map[string]weburl.URL{}}
	sc.history.Store(&History{})
	for _, e := range s.SkipExtensions {
		sc.skip[strings.ToLower(strings.TrimPrefix(e, "."))] = true
	}
	var err error
	if sc.matcher, err = NewMatcher(s.Include, s.Exclude); err != nil {
		return nil, err
	}
	if sc.only, err = config.NewHostSet(s.OnlyHosts); err != nil {
		return nil, err
	}
	sc.bound, sc.hosts = !sc.only.IsEmpty(), sc.starts
	if sc.kind == "domain" || sc.kind == "prefix" { // otherwise the spans are the hosts
		sc.hosts = make(map[string]bool, len(starts))
	}
	for _, u := range starts {
		sc.starts[sc.span(u)] = true
		if !sc.hosts[u.Host()] {
			sc.hosts[strings.Clone(u.Host())] = true
		}
	}
	for _, u := range extensions {
		sc.add(u)
	}
	return sc, nil
}

// SetHistory sets how the rules have changed up to now. It comes before the scope is used.
func (s *Scope) SetHistory(h *History) { s.history.Store(h) }

// History is how the rules have changed up to now. What is checked after this call is checked by these rules, or by
// wider ones.
func (s *Scope) History() *History { return s.history.Load() }

// Matcher chooses URLs by regular expressions.
type Matcher struct{ include, exclude []*regexp.Regexp }

// NewMatcher compiles the expressions. Without expressions to include, all URLs are included.
func NewMatcher(include, exclude []string) (*Matcher, error) {
	included, excluded, err := config.CompilePatterns(include, exclude)
	return &Matcher{included, excluded}, err
}

// Check says whether u is chosen, and if not, why.
func (m *Matcher) Check(u weburl.URL) Reason {
	if len(m.include) > 0 && !matchAny(m.include, u.String()) {
		return NotIncluded
	}
	if matchAny(m.exclude, u.String()) {
		return Excluded
	}
	return InScope
}

// Permits says whether the host of u may be asked at all: the setting only-hosts admits it, or it is the host of a
// start URL.
func (s *Scope) Permits(u weburl.URL) bool {
	return !s.bound || s.only.Has(u.Host()) || s.hosts[u.Host()]
}

// Extend takes a start URL's redirect target into the scope. If it was outside of it, the history is that of wider rules
// from now on, with the next edition. Calls must not overlap.
func (s *Scope) Extend(u weburl.URL) {
	wider := !s.Contains(u)
	s.add(u)
	if wider {
		h := *s.History()
		h.widen(h.Edition+1, OutOfScope)
		s.history.Store(&h)
	}
}

// add is Extend without the history.
func (s *Scope) add(u weburl.URL) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.more[s.span(u)] = true
	s.extended.Store(true)
	if host := u.Host(); !s.hosts[host] {
		s.moreHosts[strings.Clone(host)] = true
	}
	if at := s.place(u); s.firsts[at] == (weburl.URL{}) {
		s.firsts[at] = u
	}
}

// First is the first target that Extend took of the host of u, or of its directory if the scope is made of directories;
// if there is none, it is u itself.
func (s *Scope) First(u weburl.URL) weburl.URL {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if first, known := s.firsts[s.place(u)]; known {
		return first
	}
	return u
}

// place is the host or the directory for which First is the same.
func (s *Scope) place(u weburl.URL) string {
	if s.kind == "prefix" {
		return Directory(u)
	}
	return strings.Clone(u.Host())
}

// IsStart reports whether a host is that of a start URL, or of what a redirect of one brought into the scope.
func (s *Scope) IsStart(host string) bool {
	if s.hosts[host] || !s.extended.Load() {
		return s.hosts[host]
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.moreHosts[host]
}

// StartHosts is the number of hosts for which IsStart is true.
func (s *Scope) StartHosts() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.hosts) + len(s.moreHosts)
}

// span is what a start URL brings into the scope.
func (s *Scope) span(u weburl.URL) string {
	switch s.kind {
	case "domain":
		return strings.Clone(weburl.RegistrableDomain(u.Host()))
	case "prefix":
		return Directory(u)
	}
	return strings.Clone(u.Host())
}

// spans reports whether start URLs span a name, by themselves or, unless atFirst is set, by their redirects.
func (s *Scope) spans(name string, atFirst bool) bool {
	if s.starts[name] {
		return true
	}
	if atFirst || !s.extended.Load() {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.more[name]
}

// Directory is a URL up to the last slash of its path.
func Directory(u weburl.URL) string {
	p := u.Path()
	return u.Origin() + p[:strings.LastIndexByte(p, '/')+1]
}

// Contains says whether u is within what the start URLs and their redirects span, whatever the filters say.
func (s *Scope) Contains(u weburl.URL) bool { return s.contains(u, false) }

// ContainsAtFirst is Contains without what redirects have brought into the scope.
func (s *Scope) ContainsAtFirst(u weburl.URL) bool { return s.contains(u, true) }

func (s *Scope) contains(u weburl.URL, atFirst bool) bool {
	if !s.Permits(u) {
		return false
	}
	switch s.kind {
	case "any":
		return true
	case "domain":
		return s.spans(weburl.RegistrableDomain(u.Host()), atFirst)
	case "subdomains":
		for h := u.Host(); ; {
			if s.spans(h, atFirst) {
				return true
			}
			_, parent, ok := strings.Cut(h, ".")
			if !ok {
				return false
			}
			h = parent
		}
	case "prefix":
		text, from := u.String(), len(u.Origin())
		for i, c := range []byte(u.Path()) {
			if c == '/' && s.spans(text[:from+i+1], atFirst) {
				return true
			}
		}
		return false
	}
	return s.spans(u.Host(), atFirst)
}

// Check says whether u belongs to the crawl, and if not, why.
func (s *Scope) Check(u weburl.URL) Reason { return s.check(u, false) }

// check is Check. If contained is set, the scope is known to contain u.
func (s *Scope) check(u weburl.URL, contained bool) Reason {
	if ExceedsLimit(u) {
		return TooLong
	}
	if !contained && !s.Contains(u) {
		return OutOfScope
	}
	return s.Filter(u)
}

// CheckKnown says whether a URL that the crawl has found earlier, perhaps by other settings, belongs to it, and if not,
// why. The depth and the priority of the link are those that it was found with. A start URL always belongs to the
// crawl. With a depth limit of 0, only start URLs and the targets of their redirects do.
func (s *Scope) CheckKnown(l *frontier.Link) Reason {
	switch {
	case l.Source == page.SourceStart:
		return InScope
	case s.depth >= 0 && int(l.Depth) > s.depth, s.depth == 0 && l.Priority != frontier.PriorityStart:
		return TooDeep
	}
	return s.Check(l.URL)
}

// Explain says which setting leaves a URL out. Why is the reason that CheckKnown gave.
func (s *Scope) Explain(why Reason) string {
	switch why {
	case Excluded:
		return "--exclude matches it"
	case NotIncluded:
		return "no --include matches it"
	case ByExtension:
		return "--skip-extensions names its extension"
	case TooDeep:
		return fmt.Sprintf("it is deeper than --max-depth %d", s.depth)
	}
	return "it is outside of the scope (--scope, --only-hosts, or where start URLs lead)"
}

// A Page checks the links of one page, most of which are on the page's own host.
type Page struct {
	scope *Scope
	host  string
	whole bool // the scope contains every URL of the host
}

// OfPage makes the check for the links of the page at u.
func (s *Scope) OfPage(u weburl.URL) Page {
	return Page{scope: s, host: u.Host(), whole: s.kind != "prefix" && s.Contains(u)}
}

// Check says whether a link of the page belongs to the crawl, and if not, why.
func (p *Page) Check(u weburl.URL) Reason { return p.scope.check(u, p.whole && u.Host() == p.host) }

// ExceedsLimit says whether a URL is longer than the frontier and the store take one.
func ExceedsLimit(u weburl.URL) bool {
	return len(u.String()) > frontier.MaxURL || len(u.Host()) > frontier.MaxHost
}

// Filter is the part of Check that does not depend on the start URLs.
func (s *Scope) Filter(u weburl.URL) Reason {
	if len(s.skip) > 0 {
		if ext := path.Ext(u.Path()); ext != "" && s.skip[strings.ToLower(ext[1:])] {
			return ByExtension
		}
	}
	if len(u.String()) > traps.MaxURLLength {
		return InScope // it is a trap, whatever the expressions say: the time for one grows with the URL's length
	}
	return s.matcher.Check(u)
}

// HasPatterns reports whether regular expressions choose URLs, so that checking many takes long.
func (s *Scope) HasPatterns() bool { return len(s.matcher.include)+len(s.matcher.exclude) > 0 }

func matchAny(exprs []*regexp.Regexp, text string) bool {
	for _, re := range exprs {
		if re.MatchString(text) {
			return true
		}
	}
	return false
}
