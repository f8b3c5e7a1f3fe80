package testweb

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mapwright/mapwright/parser"
)

// TestTextHash checks that what this web calls a change of the text is one to the crawler's parser as well, and nothing
// else is.
func TestTextHash(t *testing.T) {
	s, err := StartOn(Config{Pages: 400, PageSize: 2000, Links: 6, Changes: allChanges()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := s.web
	p, err := parser.New(parser.Options{SimHash: true})
	if err != nil {
		t.Fatal(err)
	}
	parse := func(r ref, gen int) (text, similar uint64) {
		u, err := parser.ParseURL(w.url(r))
		if err != nil {
			t.Fatal(err)
		}
		var pg parser.Page
		if err := p.Parse(&pg, parser.Input{URL: u, Body: w.appendPage(nil, r, gen)}); err != nil {
			t.Fatal(err)
		}
		return pg.VisibleHash, pg.SimHash
	}
	compared := make(map[string]int)
	for node := range w.cfg.Pages {
		r := ref{0, node}
		for gen := 1; gen < 5; gen++ {
			before, after := w.state(r, gen-1), w.state(r, gen)
			if before.status != 200 || after.status != 200 {
				continue
			}
			changed := before.text != after.text
			textBefore, similarBefore := parse(r, gen-1)
			textAfter, similarAfter := parse(r, gen)
			if got := textBefore != textAfter; got != changed {
				t.Errorf("%s, generation %d: the text hash changed: %v, the text: %v", w.url(r), gen, got, changed)
			}
			distance := parser.Distance(similarBefore, similarAfter)
			if counter := after.kind == pageCounter; counter && w.relinked(0, node, gen) < gen && distance > 3 ||
				after.kind == pageAlways && distance <= 3 {
				t.Errorf("%s, generation %d, %s: the texts differ by %d bits", w.url(r), gen, after.kind, distance)
			}
			same := bytes.Equal(w.appendPage(nil, r, gen-1), w.appendPage(nil, r, gen))
			if same != (before.body == after.body) {
				t.Errorf("%s, generation %d: equal bytes: %v, bodies of generations %d and %d", w.url(r), gen, same,
					before.body, after.body)
			}
			compared[fmt.Sprint(after.kind.String(), " ", changed)]++
		}
	}
	for _, want := range []string{"counter true", "always true", "tokens false", "title true", "title false",
		"canonical false", "noindex false", "steady true", "steady false"} {
		if compared[want] == 0 {
			t.Errorf("no page of a kind that gives %q in %v", want, compared)
		}
	}
}

// TestShares checks that the kinds have about the shares they are given, and changes their rate.
func TestShares(t *testing.T) {
	const pages = 100_000
	w := mustWeb(t, Config{Pages: pages, Changes: &Changes{Sometimes: 0.5, Rate: 0.01, Vanish: 0.1, Title: 0.4}})
	kinds := make(map[pageKind]int)
	changed, begins := 0, make(map[int]int)
	for node := range pages {
		st := w.state(ref{0, node}, 5)
		kinds[st.kind]++
		if st.kind == pageSometimes && st.text == 5 {
			changed++
		}
		begins[st.title]++
	}
	near := func(what string, got int, want float64) {
		if math.Abs(float64(got)-want) > 6*math.Sqrt(want) {
			t.Errorf("%s: %d, want about %.0f", what, got, want)
		}
	}
	near("sometimes", kinds[pageSometimes], 0.5*pages)
	near("vanish", kinds[pageVanish], 0.1*pages)
	near("title", kinds[pageTitle], 0.4*pages)
	near("changed", changed, 0.5*0.01*pages)
	for g := 1; g <= 3; g++ {
		near("titles of a generation", begins[g], 0.4*pages/3)
	}
	if kinds[pageSteady] != 1 { // the root
		t.Errorf("%d steady pages, want 1", kinds[pageSteady])
	}
}

func TestGenerations(t *testing.T) {
	s := start(t, Config{Pages: 2, Generation: 2, Changes: &Changes{Always: 1}})
	if s.Generation() != 2 {
		t.Errorf("generation %d", s.Generation())
	}
	modified := func() string {
		resp, _ := exchangeOnce(t, s, "GET", "/d1/p1.html", nil)
		return resp.Header.Get("Last-Modified")
	}
	if got := modified(); got != "Sun, 03 Jan 1999 00:00:00 GMT" {
		t.Errorf("Last-Modified %s", got)
	}
	at := time.Date(2020, 2, 3, 4, 5, 6, 7, time.FixedZone("", 3600))
	if err := s.SetGenerationAt(5, at); err != nil {
		t.Fatal(err)
	}
	if got := modified(); got != "Mon, 03 Feb 2020 03:05:06 GMT" {
		t.Errorf("Last-Modified %s", got)
	}
	for _, n := range []int{-1, maxGeneration + 1} {
		if err := s.SetGeneration(n); err == nil || s.Generation() != 5 {
			t.Errorf("generation %d: %v, then %d", n, err, s.Generation())
		}
	}
	if err := errors.Join(s.SetGeneration(maxGeneration), s.SetGeneration(0), s.SetGeneration(5)); err != nil {
		t.Error(err)
	}
	if got := modified(); got != "Mon, 03 Feb 2020 03:05:06 GMT" {
		t.Errorf("Last-Modified %s after other generations", got)
	}
	for _, generations := range [][]int{nil, {-1}, {maxGeneration + 1}, make([]int, maxGeneration+1)} {
		if _, err := s.ExpectedRecrawl(Crawl{}, generations...); err == nil {
			t.Errorf("a recrawl of %d generations %v is accepted", len(generations),
				generations[:min(len(generations), 1)])
		}
	}
	for _, c := range []Crawl{{MaxDepth: 1}, {Scope: "world"}} {
		if _, err := s.ExpectedRecrawl(c, 0, 1); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	all, err := s.ExpectedRecrawl(Crawl{}, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	for e := range all {
		if e.Kind == "" {
			t.Errorf("%+v", e)
		}
		break
	}
}

// TestDownOverTCP looks at a host that is down on real connections.
func TestDownOverTCP(t *testing.T) {
	s := start(t, Config{Hosts: 2, Faults: append(On("0", Down{Refuse: true}),
		On("1", Down{Generations: []int{1, 3}, Status: 502})...)})
	ask := func(host string) (string, error) {
		return talk(t, s, "GET /robots.txt HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
	}
	for gen, down := range []bool{false, true, false, true} {
		if err := s.SetGeneration(gen); err != nil {
			t.Fatal(err)
		}
		got, err := ask("h0.test")
		if refused := got == "" && errors.Is(err, syscall.ECONNRESET); refused != (gen == 1) {
			t.Errorf("generation %d: %q, %v", gen, got, err)
		}
		_, err = s.Dial(t.Context(), "tcp", "h0.test:80")
		if refused := errors.Is(err, syscall.ECONNREFUSED); refused != (gen == 1) {
			t.Errorf("generation %d: dial: %v", gen, err)
		}
		got, err = ask("h1.test")
		if failed := strings.HasPrefix(got, "HTTP/1.1 502 "); failed != down || err != nil {
			t.Errorf("generation %d: %q, %v", gen, got, err)
		}
	}
}

// TestDisallowedLater checks that a request for a page that robots.txt disallows since this generation is held against
// the client.
func TestDisallowedLater(t *testing.T) {
	s := start(t, Config{Pages: 2, Changes: &Changes{Disallow: 1, Span: 1}})
	for gen := range 2 {
		if err := s.SetGeneration(gen); err != nil {
			t.Fatal(err)
		}
		_, rules := exchangeOnce(t, s, "GET", "/robots.txt", nil)
		resp, _ := exchangeOnce(t, s, "GET", "/d1/p1.html", nil)
		b := s.HostStats(0)
		if strings.Contains(rules, "Disallow: /d1/p1.html\n") != (gen == 1) || resp.StatusCode != http.StatusOK ||
			b.Disallowed.Count != gen {
			t.Errorf("generation %d: rules %q, status %d, %d disallowed", gen, rules, resp.StatusCode,
				b.Disallowed.Count)
		}
	}
}

func TestValidateChanges(t *testing.T) {
	for _, c := range []Changes{
		{Always: -0.1}, {Title: 1.1}, {Always: 0.6, Unlink: 0.6}, {Rate: 2}, {Rate: math.NaN()}, {Move: math.NaN()},
		{Span: -1}, {Span: 251}, {Disallow: 1},
	} {
		if _, err := StartOn(Config{Pages: 6000, Changes: &c}, nil); err == nil ||
			!strings.Contains(err.Error(), "changes: ") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	got, err := ParseChanges("sometimes=0.5 rate=0.01 span=7 noindex_header=1")
	if want := (Changes{Sometimes: 0.5, Rate: 0.01, Span: 7, NoIndexHeader: 1}); err != nil || *got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"always", "never=1", "always=x", "always="} {
		if c, err := ParseChanges(bad); err == nil {
			t.Errorf("%q is accepted as %+v", bad, c)
		}
	}
}
