package testweb

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// CalendarTrap adds a calendar: every month links to the ones before and after it
// and to its days, without end.
type CalendarTrap struct{}

// SessionTrap adds a small shop that gives every visit a new session identifier and
// writes it into every link, so that each page has ever new URLs.
type SessionTrap struct {
	Items int `yaml:"items"` // pages of the shop. Zero means 5
}

// ParameterTrap adds a listing whose every page links to itself with one parameter more,
// in any order: runaway combinations.
type ParameterTrap struct {
	Parameters int `yaml:"parameters"` // Zero means 8
}

// PathTrap adds a page at every depth of a directory that links one deeper.
type PathTrap struct{}

// LongURL adds a link too long to be followed.
type LongURL struct {
	Length int `yaml:"length"` // of its path, over 2,048. Zero means 3,000
}

func (CalendarTrap) Kind() string  { return "calendar_trap" }
func (SessionTrap) Kind() string   { return "session_trap" }
func (ParameterTrap) Kind() string { return "parameter_trap" }
func (PathTrap) Kind() string      { return "path_trap" }
func (LongURL) Kind() string       { return "long_url" }

// lay adds a trap and the link that leads into it.
func (p *plan) lay(t trap, entry string) {
	p.traps = append(p.traps, t)
	p.add(leaf{uri: entry, href: entry, trap: true, answer: t.answer})
}

func (CalendarTrap) validate(Config) error { return nil }

func (f CalendarTrap) install(p *plan, _ *web) {
	p.lay(trap{f.Kind(), "/calendar/", answerCalendar}, "/calendar/2026/01")
}

func answerCalendar(x *exchange) {
	var year, month, day int
	rest := strings.TrimPrefix(string(x.req.uri), "/calendar/")
	if n, _ := fmt.Sscanf(rest, "%d/%d/%d", &year, &month, &day); n < 2 || month < 1 || month > 12 {
		x.text(http.StatusNotFound, "no such day\n")
		return
	}
	at := func(m int) string { return fmt.Sprintf("/calendar/%04d/%02d", m/12, m%12+1) }
	m := year*12 + month - 1
	links := []string{at(m - 1), at(m + 1)}
	if day == 0 {
		for d := 1; d <= 28; d += 9 {
			links = append(links, fmt.Sprintf("%s/%02d", at(m), d))
		}
	}
	x.html(simplePage("Calendar for "+rest, anchors(links...)))
}

func (f SessionTrap) validate(Config) error { return notNegative("items", f.Items) }

func (f SessionTrap) install(p *plan, _ *web) {
	f.Items = cmp.Or(f.Items, 5)
	p.lay(trap{f.Kind(), "/shop/", func(x *exchange) {
		x.h.mu.Lock()
		x.h.visits++
		visit := x.h.visits
		x.h.mu.Unlock()
		a, b := nodeHash(x.s.web.cfg.Seed, x.h.id, -visit), nodeHash(^x.s.web.cfg.Seed, x.h.id, -visit)
		session := fmt.Sprintf("%016x%016x", a, b)
		var links []string
		for i := range f.Items {
			switch i % 3 {
			case 0:
				links = append(links, fmt.Sprintf("/shop/item-%d?PHPSESSID=%s", i, session))
			case 1:
				links = append(links, fmt.Sprintf("/shop/item-%d;jsessionid=%s", i, strings.ToUpper(session)))
			default:
				links = append(links, fmt.Sprintf("/shop/item-%d?sid=%s", i, session))
			}
		}
		x.html(simplePage("Shop", anchors(links...)))
	}}, "/shop/")
}

func (f ParameterTrap) validate(Config) error { return notNegative("parameters", f.Parameters) }

func (f ParameterTrap) install(p *plan, _ *web) {
	f.Parameters = cmp.Or(f.Parameters, 8)
	p.lay(trap{f.Kind(), "/filter/", func(x *exchange) {
		_, query, _ := bytes.Cut(x.req.uri, []byte("?"))
		var links []string
		for i := range f.Parameters {
			name := "f" + strconv.Itoa(i)
			if bytes.HasPrefix(query, []byte(name+"=")) || bytes.Contains(query, []byte("&"+name+"=")) {
				continue
			}
			for _, value := range []string{"a", "b"} {
				q := "?" + name + "=" + value
				if len(query) > 0 {
					q = "?" + string(query) + "&" + name + "=" + value
				}
				links = append(links, "/filter/"+strings.ReplaceAll(q, "&", "&amp;"))
			}
		}
		x.html(simplePage("Listing", anchors(links...)))
	}}, "/filter/")
}

func (PathTrap) validate(Config) error { return nil }

func (f PathTrap) install(p *plan, _ *web) {
	p.lay(trap{f.Kind(), "/deep/", func(x *exchange) {
		x.html(simplePage("Deeper", anchors("more/", "other/")))
	}}, "/deep/")
}

func (f LongURL) validate(Config) error {
	if f.Length != 0 && f.Length <= 2048 {
		return fmt.Errorf("length %d: want over 2048", f.Length)
	}
	return nil
}

func (f LongURL) install(p *plan, _ *web) {
	f.Length = cmp.Or(f.Length, 3000)
	l := pageLeaf("/long/"+strings.Repeat("a", f.Length-len("/long/")), "Long").linked().baited()
	l.verdict = func(Crawl) verdict { return verdict{outcomes: []string{OutcomeTrap}} }
	p.add(l)
}
