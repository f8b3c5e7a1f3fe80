//go:build browser

package serve_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/results/pageindex"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/test/browsertest"
)

// attack is text that must never become markup, run, or turn the text around it.
const (
	markup = `"'><script>window.ran=1</script><img src=x onerror=window.ran=1>`
	attack = markup + "\u202E\u2066{{.}}"
)

// hostileSite answers every request with a page whose title, link texts and links are hostile.
func hostileSite(t *testing.T) *httptest.Server {
	long := strings.Repeat("W", 8000) // a href of more than 8192 bytes is not followed
	links := []string{"/" + attack, "/?q=" + attack, "/" + long, "/\u202Egnp.exe", "/moved", "/gone?" + attack, "/" +
		attack + long}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		switch r.URL.Path {
		case "/robots.txt":
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprint(w, "User-agent: *\nAllow: /*<script>\nDisallow: /*.exe\n")
			return
		case "/moved":
			w.Header().Set("Location", "/"+strings.Repeat("m", 10_000)+"?"+url.QueryEscape(attack))
			w.WriteHeader(http.StatusMovedPermanently)
			return
		case "/gone":
			w.WriteHeader(http.StatusGone)
		}
		fmt.Fprintf(w, "<!doctype html><html lang=en><title>%s</title><h1>%[1]s</h1>",
			html.EscapeString(attack+strings.Repeat("W", 10_000)))
		for _, link := range links {
			fmt.Fprintf(w, `<p><a href="%s" rel="%s">%[2]s</a>`, html.EscapeString(link),
				html.EscapeString(attack+long))
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// urlWith is the first URL of a crawl with a text.
func urlWith(t *testing.T, dir, text string) string {
	t.Helper()
	x, err := pageindex.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	found, err := x.Query(t.Context(), pageindex.Query{Filter: pageindex.Filter{Contains: text}})
	if err != nil || found.Total == 0 {
		t.Fatalf("no URL has %.100q (%v)", text, err)
	}
	return found.Hits[0].URL
}

// Hostile titles, URLs, host names, link texts and names of crawls are shown as text, and no page must be scrolled
// sideways for them.
func TestBrowserHostile(t *testing.T) {
	t.Parallel()
	f := newDashboard(t, smallSite(), "")
	site := hostileSite(t)
	label := strings.Repeat("w", 63)
	starts := []string{"http://" + label + "." + label + "." + label + ".test/", "http://\u05D0\u05D1\u05D2.test/",
		"http://a.test/" + strings.Repeat("W", 4000)}
	resolve, err := json.Marshal([]string{"*:80:" + site.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	// Names and labels with characters that turn text around are refused.
	c := f.submit(service.Submission{Name: markup + strings.Repeat("W", 100), Labels: []string{markup},
		StartURLs: starts,
		Settings:  map[string]json.RawMessage{"links": json.RawMessage("true"), "resolve": resolve}})
	f.await(c.ID, service.Complete)
	path := "/crawls/" + c.ID
	at := func(u string) string { return path + "/page?url=" + url.QueryEscape(u) }
	screens := map[string]string{"crawls": "/", "crawl": path, "pages": path + "/pages", "filtered": path +
		"/pages?q=" + url.QueryEscape(attack),
		"problems": path + "/problems", "long-host": at(starts[0]), "hosts": "/settings/hosts"}
	for name, q := range map[string]string{"markup": "/?q=%22", "turned": "gnp.exe", "long": strings.Repeat("W", 8000),
		"moved": "/moved", "gone": "/gone"} {
		screens[name] = at(urlWith(t, string(f.svc.Crawls.DataDir(c.ID)), q))
	}
	for _, look := range []browsertest.Look{{Width: 1440, Height: 900}, {Width: 360, Height: 740, Dark: true}} {
		t.Run(look.String(), func(t *testing.T) {
			b := logIn(t, f)
			for name, path := range screens {
				t.Run(name, func(t *testing.T) {
					tab := b.Tab(t, look)
					tab.Open(f.url + path)
					tab.OpenDetails()
					tab.FitsWidth()
					tab.Axe()
					tab.Screenshot("hostile-" + name)
					if tab.Holds("window.ran || document.querySelector('img, iframe, object, embed, " +
						"script:not([src]), [onerror]')") {
						t.Error("a text of the site became markup")
					}
					if tab.Holds(`[...document.querySelectorAll('main a')].some(a => a.protocol !== 'http:')`) {
						t.Error("a link leads to something other than a page")
					}
					if tab.Holds(`/[\u202A-\u202E\u2066-\u2069]/.test(document.querySelector('main').innerText)`) {
						t.Error("characters that turn text around are shown")
					}
					if name == "pages" && !tab.Holds(`document.querySelector('tbody').innerText.includes('<script>window.ran=1</script>')`) {
						t.Error("the title is not shown as text")
					}
				})
			}
		})
	}
}
