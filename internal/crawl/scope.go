package crawl

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// Reason says why a URL that was found is not crawled. Such URLs are counted by reason, not listed.
type Reason string

// The reasons. In scope is the empty one.
const (
	InScope       Reason = ""
	OutOfScope    Reason = "out_of_scope"
	Excluded      Reason = "excluded"
	NotIncluded   Reason = "not_included"
	ByExtension   Reason = "extension"
	TooDeep       Reason = "too_deep"
	NotFollowed   Reason = "nofollow"
	NotHTTP       Reason = "not_http"
	TooLong       Reason = "too_long"
	OlderThan     Reason = "older"
	HostLimit     Reason = "max_urls_per_host"
	CrossSiteSeed Reason = "sitemap_cross_site"
	Trapped       Reason = "trap" // of a trap that has enough URLs on record already
)

// Scope decides which found URLs belong to the crawl. It is safe for concurrent use; only Extend changes it.
type Scope struct {
	kind    string
	include []*regexp.Regexp
	exclude []*regexp.Regexp
	skip    map[string]bool // extensions, lower case, without the dot
	within  atomic.Pointer[within]
}

// within is what the start URLs span, by the kind of scope. It is replaced whole, never changed.
type within struct {
	hosts    map[string]bool // host and domain: exact names; subdomains: names whose subdomains belong too
	prefixes []string
}

// NewScope compiles the settings and spans the start URLs.
func NewScope(s *config.Settings, starts []urlnorm.URL) (*Scope, error) {
	sc := &Scope{kind: s.Scope, skip: map[string]bool{}}
	for _, e := range s.SkipExtensions {
		sc.skip[strings.ToLower(strings.TrimPrefix(e, "."))] = true
	}
	var err error
	if sc.include, err = compile(s.Include); err != nil {
		return nil, err
	}
	if sc.exclude, err = compile(s.Exclude); err != nil {
		return nil, err
	}
	sc.within.Store(&within{hosts: map[string]bool{}})
	for _, u := range starts {
		sc.Extend(u)
	}
	return sc, nil
}

func compile(exprs []string) ([]*regexp.Regexp, error) {
	var out []*regexp.Regexp
	for _, e := range exprs {
		re, err := regexp.Compile(e)
		if err != nil {
			return nil, fmt.Errorf("compile %q: %w", e, err)
		}
		out = append(out, re)
	}
	return out, nil
}

// Extend takes another start URL, or a start URL's redirect target, into the scope.
func (s *Scope) Extend(u urlnorm.URL) {
	for {
		old := s.within.Load()
		if old.holds(s.kind, u) {
			return
		}
		grown := &within{hosts: make(map[string]bool, len(old.hosts)+1), prefixes: old.prefixes}
		for h := range old.hosts {
			grown.hosts[h] = true
		}
		switch s.kind {
		case "domain":
			grown.hosts[urlnorm.RegistrableDomain(u.Host())] = true
		case "prefix":
			grown.prefixes = append(grown.prefixes[:len(grown.prefixes):len(grown.prefixes)], directory(u))
		default:
			grown.hosts[u.Host()] = true
		}
		if s.within.CompareAndSwap(old, grown) {
			return
		}
	}
}

// directory is a URL up to the last slash of its path.
func directory(u urlnorm.URL) string {
	p := u.Path()
	return u.Origin() + p[:strings.LastIndexByte(p, '/')+1]
}

func (w *within) holds(kind string, u urlnorm.URL) bool {
	switch kind {
	case "any":
		return true
	case "domain":
		return w.hosts[urlnorm.RegistrableDomain(u.Host())]
	case "subdomains":
		for h := u.Host(); ; {
			if w.hosts[h] {
				return true
			}
			_, parent, ok := strings.Cut(h, ".")
			if !ok {
				return false
			}
			h = parent
		}
	case "prefix":
		text := u.String()
		for _, p := range w.prefixes {
			if strings.HasPrefix(text, p) {
				return true
			}
		}
		return false
	}
	return w.hosts[u.Host()]
}

// Check says whether u belongs to the crawl, and if not, why.
func (s *Scope) Check(u urlnorm.URL) Reason {
	if tooLong(u) {
		return TooLong
	}
	if !s.within.Load().holds(s.kind, u) {
		return OutOfScope
	}
	return s.Filter(u)
}

// tooLong says whether a URL is longer than the frontier and the store take one.
func tooLong(u urlnorm.URL) bool {
	return len(u.String()) > frontier.MaxURL || len(u.Host()) > frontier.MaxHost
}

// Filter is the part of Check that does not depend on the start URLs.
func (s *Scope) Filter(u urlnorm.URL) Reason {
	if len(s.skip) > 0 {
		if ext := path.Ext(u.Path()); ext != "" && s.skip[strings.ToLower(ext[1:])] {
			return ByExtension
		}
	}
	if len(s.include) > 0 && !matchAny(s.include, u.String()) {
		return NotIncluded
	}
	if matchAny(s.exclude, u.String()) {
		return Excluded
	}
	return InScope
}

func matchAny(exprs []*regexp.Regexp, text string) bool {
	for _, re := range exprs {
		if re.MatchString(text) {
			return true
		}
	}
	return false
}

// Contains says whether u is within what the start URLs span, whatever the filters say.
func (s *Scope) Contains(u urlnorm.URL) bool { return s.within.Load().holds(s.kind, u) }

// mustCanonical splits text that came from a urlnorm.URL.
func mustCanonical(text string) urlnorm.URL {
	u, ok := urlnorm.FromCanonical(text)
	if !ok {
		panic("not canonical: " + text)
	}
	return u
}
