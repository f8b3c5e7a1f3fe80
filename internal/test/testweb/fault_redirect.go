package testweb

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// RedirectChain adds chains of redirects, of all five statuses in turn, with
// absolute and relative targets, that end on a page.
type RedirectChain struct {
	Count  int `yaml:"count"`  // chains. Zero means 1
	Length int `yaml:"length"` // redirects in each. Zero means 3
}

// RedirectLoop adds rings of redirects.
type RedirectLoop struct {
	Count  int `yaml:"count"`  // rings. Zero means 1
	Length int `yaml:"length"` // URLs in each; 1 redirects to itself. Zero means 2
}

// Moved makes the host redirect every page to the same page of another host.
type Moved struct {
	To int `yaml:"to"` // the other host's number
}

func (RedirectChain) Kind() string { return "redirect_chain" }
func (RedirectLoop) Kind() string  { return "redirect_loop" }
func (Moved) Kind() string         { return "moved" }

func (f RedirectChain) validate(Config) error {
	return errors.Join(notNegative("count", f.Count), notNegative("length", f.Length))
}

func (f RedirectLoop) validate(c Config) error { return RedirectChain(f).validate(c) }

func (f RedirectChain) install(p *plan, _ *web) {
	f.Length = cmp.Or(f.Length, 3)
	for i := range max(f.Count, 1) {
		uri := func(hop int) string { return fmt.Sprintf("/chain-%d/%d", i, hop) }
		for hop := range f.Length {
			l := hopLeaf(uri(hop), uri(hop+1), strconv.Itoa(hop+1), hop, OutcomeRedirect)
			if hop == 0 {
				l = l.linked()
			}
			p.add(l)
		}
		p.add(pageLeaf(uri(f.Length), "End of the chain"))
	}
}

func (f RedirectLoop) install(p *plan, _ *web) {
	f.Length = cmp.Or(f.Length, 2)
	for i := range max(f.Count, 1) {
		uri := func(hop int) string { return fmt.Sprintf("/loop-%d/%d", i, hop%f.Length) }
		for hop := range f.Length {
			l := hopLeaf(uri(hop), uri(hop+1), strconv.Itoa((hop+1)%f.Length), hop, OutcomeRedirectLoop)
			if hop == 0 {
				l = l.linked()
			}
			p.add(l)
		}
	}
}

// hopLeaf redirects from one URI to another; odd hops write the target relative.
func hopLeaf(from, to, relative string, hop int, outcome string) leaf {
	statuses := [...]int{
		http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
	}
	status := statuses[hop%len(statuses)]
	return leaf{
		uri: from,
		answer: func(x *exchange) {
			if hop%2 == 0 {
				x.redirect(status, x.h.id, to)
				return
			}
			x.reply(status, typeText, "Location: "+relative+"\r\n", "")
		},
		verdict: func(Crawl) verdict {
			return verdict{outcomes: []string{outcome}, status: status, to: to}
		},
	}
}

func (f Moved) validate(c Config) error {
	if f.To < 0 || f.To >= c.Hosts {
		return fmt.Errorf("to %d: want a host below %d", f.To, c.Hosts)
	}
	return nil
}

func (f Moved) install(p *plan, _ *web) {
	p.moved = &f.To
	p.same = &sameAnswer{
		answer: func(x *exchange) {
			x.redirect(http.StatusMovedPermanently, f.To, string(x.req.uri))
		},
		verdict: func(Crawl) verdict {
			return verdict{outcomes: []string{OutcomeRedirect}, status: http.StatusMovedPermanently}
		},
	}
}
