package crawl

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/traps"
)

// withData adds data to a page, which is a part of its text only if links are taken from it. So --structured-links is
// another reader, and has another hash for every text.
func withData(html string) string {
	return html + `<script id="__NEXT_DATA__" type="application/json">{"props":{"name":"chair of oak"}}</script>`
}

func structured(s *config.Settings) { s.StructuredLinks = true }

// Texts that were read in different ways are not compared: the first recrawl with another reader reports pages as
// changed whose content changed.
func TestRecrawlWithAnotherReader(t *testing.T) {
	pages := map[string]any{"a.test/": withData(`<html><title>T</title><a href=/1>1</a><a href=/2>2</a><a href=/3>3</a>`)}
	for _, name := range []string{"1", "2", "3"} {
		pages["a.test/"+name] = withData("<html><title>T</title><p>text of " + name)
	}
	site, dir := newHandSite(t, pages), newDir(t)
	_, before := site.crawl(dir, nil, "http://a.test/")
	check := func(step string, lines map[string]string, want string) {
		for url, change := range lines {
			if (change == "changed") != (url == want) {
				t.Errorf("%s: %s is %s", step, url, change)
			}
		}
	}
	again := func(change func(*config.Settings)) map[string]string {
		rep, lines := site.resume(dir, &Recrawl{}, change)
		t.Logf("%+v", rep.Changes)
		changes := map[string]string{}
		for url, l := range lines {
			changes[url] = l.Change
			if (*l.TextHash == *before[url].TextHash) != (change == nil) && l.Change != "changed" {
				t.Errorf("%s has the hash %v, had %v", url, l.TextHash, before[url].TextHash)
			}
		}
		return changes
	}
	pages["a.test/2"] = withData("<html><title>T</title><p>another text")
	check("another reader", again(structured), "http://a.test/2")

	// What was recorded now can be compared with: tokens in the markup are no change of the text.
	pages["a.test/1"] = withData("<html data-token=5><title>T</title><p>text of 1")
	pages["a.test/3"] = withData("<html><title>T</title><p>another text of 3")
	check("the same reader", again(structured), "http://a.test/3")
}

// A crawl that goes on with another reader does not compare its texts with those of before: a page that has the same
// text under another session identifier would count as a different one, and there would be no end.
func TestTextEvidenceBeginsAnewWithAnotherReader(t *testing.T) {
	session := &sessionSite{pages: 200, format: "%x", url: func(p int,
		t string) string {
		return fmt.Sprintf("/page-%d.html?sid=%s", p, t)
	}}
	site, dir := newHandSite(t, nil), newDir(t)
	site.other = func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		session.ServeHTTP(rec, r)
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(rec.Code)
		fmt.Fprint(w, withData(rec.Body.String()))
	}
	site.crawl(dir, func(s *config.Settings) { s.MaxURLs = 30 }, "http://a.test/page-0.html")
	_, lines := site.resume(dir, nil, func(s *config.Settings) { s.MaxURLs, s.StructuredLinks = 2000, true })
	found, ineffective := map[string]bool{}, 0
	for _, l := range lines {
		switch {
		case l.Outcome == "ok":
			found[l.Title] = true
		case l.Error == "trap: "+traps.Ineffective:
			ineffective++
		}
	}
	if n := session.requests.Load(); len(found) != session.pages || ineffective == 0 || n > 600 {
		t.Errorf("%d of %d pages, %d requests, %d URLs are %s", len(found), session.pages, n, ineffective,
			traps.Ineffective)
	}
}
