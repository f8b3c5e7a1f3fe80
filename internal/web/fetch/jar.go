package fetch

import (
	"container/list"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// Bounds of a jar. Those of one site are near those of browsers.
const (
	maxCookie      = 4096      // bytes of a name and a value
	maxSiteCookies = 180       // cookies of one site
	maxSiteBytes   = 128 << 10 // of the cookies of one site
	maxJarBytes    = 16 << 20  // of all cookies
	cookieOverhead = 256       // bytes that a cookie or a site takes beside its texts, roughly
)

// A jar keeps the cookies of answers by the rules of browsers, in memory alone. What is over the bounds of a site is
// not taken; if all sites together are over theirs, those that set no cookie for the longest time are forgotten.
type jar struct {
	mu    sync.Mutex
	sites map[string]*list.Element // guarded by mu; by registrable domain
	order list.List                // guarded by mu; of *siteCookies, the one that set a cookie last in front
	bytes int                      // guarded by mu
}

// siteCookies are the cookies of the hosts of one registrable domain, guarded by the mutex of the jar.
type siteCookies struct {
	domain string
	jar    *cookiejar.Jar
	sizes  map[cookieKey]int
	bytes  int
}

type cookieKey struct{ host, path, name string }

func newJar() *jar { return &jar{sites: map[string]*list.Element{}} }

// cookies are those to send to a URL.
func (j *jar) cookies(u weburl.URL) []*http.Cookie {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := j.sites[weburl.RegistrableDomain(u.Host())]
	if at == nil {
		return nil
	}
	return at.Value.(*siteCookies).jar.Cookies(netURL(u))
}

// take keeps the cookies that the answer for a URL sets.
func (j *jar) take(u weburl.URL, header http.Header) {
	if len(header["Set-Cookie"]) == 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	domain := weburl.RegistrableDomain(u.Host())
	at := j.sites[domain]
	if at == nil {
		domain = strings.Clone(domain) // and not the whole URL
		at = j.order.PushFront(&siteCookies{domain: domain, jar: newCookieJar(), sizes: map[cookieKey]int{},
			bytes: cookieOverhead})
		j.sites[domain] = at
		j.bytes += cookieOverhead
	}
	j.order.MoveToFront(at)
	site := at.Value.(*siteCookies)
	hidden := site.hidden(u) // what this answer sets is not hidden
	for _, c := range (&http.Response{Header: header}).Cookies() {
		if mayBeSet(c, u) && !hidden[c.Name] {
			j.bytes += site.set(u, c)
		}
	}
	for j.bytes > maxJarBytes && j.order.Len() > 1 {
		oldest := j.order.Remove(j.order.Back()).(*siteCookies)
		delete(j.sites, oldest.domain)
		j.bytes -= oldest.bytes
	}
}

// hidden are the names of the site's cookies that an http URL does not get. Such a URL may not replace them, or an
// attacker who changes an answer on its way could end a session.
func (s *siteCookies) hidden(u weburl.URL) map[string]bool {
	names := map[string]bool{}
	if u.Scheme() == "https" {
		return names
	}
	safe := netURL(u)
	safe.Scheme = "https"
	for _, c := range s.jar.Cookies(safe) {
		names[c.Name] = true
	}
	for _, c := range s.jar.Cookies(netURL(u)) {
		delete(names, c.Name)
	}
	return names
}

// mayBeSet applies the rules of browsers that cookiejar does not know: an http URL sets no cookie for https alone, and
// the prefixes of names promise something about the cookie. For browsers and cookiejar, this machine is as safe as
// https.
func mayBeSet(c *http.Cookie, u weburl.URL) bool {
	addr, _ := netip.ParseAddr(strings.Trim(u.Host(), "[]"))
	safe := c.Secure && (u.Scheme() == "https" || u.Host() == "localhost" || addr.IsLoopback())
	switch {
	case len(c.Name)+len(c.Value) > maxCookie || c.Secure && !safe:
		return false
	case strings.HasPrefix(c.Name, "__Host-"):
		return safe && c.Domain == "" && c.Path == "/"
	case strings.HasPrefix(c.Name, "__Secure-"):
		return safe
	}
	return true
}

// set stores or removes a cookie, and returns by how many bytes the site grows. A cookie that would exceed the bounds
// is not stored.
func (s *siteCookies) set(u weburl.URL, c *http.Cookie) (grown int) {
	key := cookieKey{strings.ToLower(strings.TrimPrefix(c.Domain, ".")), c.Path, c.Name}
	if key.host == "" {
		key.host = u.Host()
	}
	if !strings.HasPrefix(key.path, "/") { // the folder of the page
		key.path = u.Path()[:strings.LastIndexByte(u.Path(), '/')+1]
	}
	size, known := s.sizes[key]
	removed := c.MaxAge < 0 || c.MaxAge == 0 && !c.Expires.IsZero() && !c.Expires.After(time.Now())
	grown = cookieOverhead + len(key.host) + len(key.path) + len(c.Name) + len(c.Value) - size
	switch {
	case removed && !known:
		return 0
	case removed:
		delete(s.sizes, key)
		grown = -size
	case !known && len(s.sizes) >= maxSiteCookies || s.bytes+grown > maxSiteBytes:
		return 0
	default:
		// The texts of an answer share its memory.
		c.Name, c.Value, c.Path = strings.Clone(c.Name), strings.Clone(c.Value), strings.Clone(c.Path)
		c.Domain, c.Raw = strings.Clone(c.Domain), ""
		s.sizes[cookieKey{strings.Clone(key.host), strings.Clone(key.path), c.Name}] = size + grown
	}
	s.bytes += grown
	s.jar.SetCookies(netURL(u), []*http.Cookie{c})
	return grown
}
