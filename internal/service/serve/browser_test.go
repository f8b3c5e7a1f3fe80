//go:build browser

package serve_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/hooks"
	"github.com/mapwright/mapwright/internal/test/browsertest"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// person uses a tab with the keyboard only.
type person struct {
	t   *testing.T
	tab *browsertest.Tab
}

// focus presses the tabulator until an element has the focus, and looks whether that is seen.
func (p *person) focus(what, expression string) {
	p.t.Helper()
	for range 200 {
		p.tab.Do(chromedp.KeyEvent(kb.Tab))
		if p.tab.Holds("(e => " + expression + ")(document.activeElement)") {
			if p.tab.Holds("getComputedStyle(document.activeElement).outlineStyle === 'none'") {
				p.t.Errorf("%s has the focus, and that is not seen", what)
			}
			return
		}
	}
	p.t.Fatalf("%s: the tabulator does not lead to %s", browsertest.Eval[string](p.tab, "location.href"), what)
}

// link and button are expressions for elements with a text.
func link(text string) string {
	return fmt.Sprintf("e.matches('main a, header a') && e.textContent.trim() === %q", text)
}

func button(text string) string {
	return fmt.Sprintf("e.matches('button') && e.textContent.trim() === %q", text)
}

func field(name string) string { return fmt.Sprintf("e.name === %q", name) }

// press presses a key, or types a text.
func (p *person) press(keys string) {
	p.t.Helper()
	p.tab.Do(chromedp.KeyEvent(keys))
}

// sees waits until an expression holds in the page, whichever is shown then.
func (p *person) sees(what, expression string) {
	p.t.Helper()
	p.tab.Until(what, expression)
}

func heading(text string) string {
	return fmt.Sprintf("document.querySelector('h1')?.textContent.includes(%q)", text)
}

// A person makes a crawl, sees its numbers move, pauses it, lets it go on, filters its pages and reads its report, with
// the keyboard only.
func TestBrowserStory(t *testing.T) {
	t.Parallel()
	for _, look := range []browsertest.Look{{Width: 1200, Height: 900}, {Width: 360, Height: 740, Dark: true}} {
		t.Run(look.String(), func(t *testing.T) { testBrowserStory(t, look) })
	}
}

func testBrowserStory(t *testing.T, look browsertest.Look) {
	site := testweb.Config{Seed: 7, Hosts: 3, HostName: "www%d.example.test", Pages: 150, PageSize: 3000, Links: 12,
		CrossHost: 0.2,
		Faults: []testweb.HostFault{{Hosts: "*", Fault: testweb.StatusPages{Where: testweb.Where{Count: 3}}},
			{Hosts: "*", Fault: testweb.RedirectChain{}},
			{Hosts: "*", Fault: testweb.Slow{Delay: 300 * time.Millisecond, Jitter: 700 * time.Millisecond}}}}
	f := newDashboard(t, site, "")
	tab := browsertest.Start(t).Tab(t, look)
	p := &person{t, tab}
	f.site.Hold(0)
	tab.Open(f.loginLink())
	p.focus("the button", button("Log in"))
	p.press(kb.Enter)
	p.sees("the list of crawls", heading("Crawls"))
	p.focus("the link to the form", link("New crawl"))
	p.press(kb.Enter)
	p.sees("the form", heading("New crawl"))
	p.focus("the start URLs", field("start_urls"))
	p.press(f.site.StartURLs()[0])
	p.focus("the limit", field("settings.max_urls"))
	p.press("1000")
	p.focus("the name", field("name"))
	p.press("Example shop")
	p.focus("the button", button("Start the crawl"))
	p.press(kb.Enter)
	p.sees("the crawl", heading("Example shop"))
	p.sees("the crawl runs", heading("running"))
	done := "Number(document.querySelector('[data-field=done]').textContent.replaceAll(',', ''))"
	p.sees("the stream", "document.getElementById('connection').textContent === 'Live'")
	browsertest.Eval[chromedp.Void](tab, "window.same = true; undefined")
	if n := browsertest.Eval[int](tab, done); n != 0 {
		t.Errorf("%d pages are done before the site answers", n)
	}
	f.site.Release()
	f.site.Hold(250)
	p.sees("numbers that move", done+" > 0 && window.same")
	// What has the focus stays where it is, while numbers go on.
	p.sees("outcomes", "document.querySelector('#live a') !== null")
	p.focus("something among the figures", "e.closest('#live') !== null")
	browsertest.Eval[chromedp.Void](tab, "window.kept = document.activeElement; undefined")
	p.sees("more of them", done+" >= 200 && window.same")
	if !tab.Holds("window.kept.closest('#live') !== null && document.activeElement === window.kept") {
		t.Error("the figures moved under the focus")
	}
	p.focus("the link after the figures", "e.textContent === 'API'")
	p.sees("a chart", "document.querySelector('#chart-found polyline')?.points.length > 8 && window.same")
	browsertest.Eval[chromedp.Void](tab, "scrollTo(0, 0)")
	tab.ScreenshotOfView("dashboard") // README.md shows it
	p.focus("the button", button("Pause"))
	p.press(kb.Enter)
	p.sees("the crawl is paused", heading("paused"))
	tab.Screenshot("crawl-paused")
	f.site.Release()
	p.focus("the button", button("Resume"))
	p.press(kb.Enter)
	p.sees("the crawl is complete", heading("complete"))
	p.focus("the pages", link("Pages"))
	p.press(kb.Enter)
	p.sees("the pages", "document.querySelector('[name=outcome]') !== null")
	p.focus("the filter", field("outcome"))
	p.press("redirect")
	p.focus("the button", button("Filter"))
	p.press(kb.Enter)
	p.sees("redirects only",
		"location.search.includes('outcome=redirect') && [...document.querySelectorAll('tbody tr')].every(r => "+
			"r.cells[1].textContent.includes('redirect'))")
	tab.Do(chromedp.Reload())
	p.sees("the filter after a reload", "document.querySelector('[name=outcome]').value === 'redirect'")
	p.focus("the first page", "e.matches('tbody td.url a')")
	p.press(kb.Enter)
	p.sees("the page", "document.body.textContent.includes('Every recorded fact')")
	p.focus("the problems", link("Problems"))
	p.press(kb.Enter)
	p.sees("the problems", "location.pathname.endsWith('/problems')")
	p.focus("the crawl", link("Crawl"))
	p.press(kb.Enter)
	p.sees("the crawl", "document.querySelector('#chart-status') !== null")
	p.focus("the report", link("report.html"))
	p.press(kb.Enter)
	p.sees("the report", heading("Crawl report"))
	p.sees("the names of files, which are no links",
		"document.querySelector('#settings') !== null && document.body.textContent.includes('problems.jsonl') && "+
			"document.querySelector('a.file') === null")
}

// logIn starts a browser with a session.
func logIn(t *testing.T, f *dashboard) *browsertest.Browser {
	t.Helper()
	b := browsertest.Start(t)
	p := &person{t, b.Tab(t, browsertest.Look{})}
	p.tab.Open(f.loginLink())
	p.focus("the button", button("Log in"))
	p.press(kb.Enter)
	p.sees("the list of crawls", heading("Crawls"))
	return b
}

// Every page fits, has no serious fault and follows the colour scheme, at both widths, with and without scripts.
func TestBrowserLooks(t *testing.T) {
	t.Parallel()
	f := newDashboard(t, smallSite(), "/base")
	hostile := `"><script>alert(1)</script>` + strings.Repeat("x", 60)
	ended := f.submit(service.Submission{Settings: map[string]json.RawMessage{"links": json.RawMessage("true")},
		Name: "h0.test", Labels: []string{"weekly"}})
	f.await(ended.ID, service.Complete)
	f.site.Hold(30)
	running := f.submit(service.Submission{Name: hostile, Labels: []string{hostile}, StartURLs: f.site.StartURLs()[1:2],
		Settings: map[string]json.RawMessage{"max_urls": json.RawMessage("500"), "duration": json.RawMessage(`"1h"`)}})
	f.await(running.ID, service.Running)
	waitFor(t, "pages of the running crawl are done",
		func() bool { live := f.svc.Crawls.Live(running.ID); return live != nil && live.Done > 0 })
	hook, err := f.hooks.Create(t.Context(), f.admin, hooks.Input{URL: new("https://example.com/" +
		strings.Repeat("hook", 50))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.hooks.Test(t.Context(), f.admin, hook.ID); err != nil {
		t.Fatal(err)
	}
	screens := map[string]string{
		"crawls": "/", "new": "/new", "crawl-running": "/crawls/" + running.ID, "crawl": "/crawls/" + ended.ID,
		"pages": "/crawls/" + ended.ID + "/pages", "pages-running": "/crawls/" + running.ID + "/pages",
		"page": "/crawls/" + ended.ID + "/page?url=" + url.QueryEscape(f.site.StartURLs()[0]), "problems": "/crawls/" +
			ended.ID + "/problems",
		"changes": "/crawls/" + ended.ID + "/changes", "settings": "/settings", "schedules": "/settings/schedules",
		"webhooks": "/settings/webhooks?log=" + hook.ID + "&edit=" + hook.ID,
		"hosts":    "/settings/hosts", "audit": "/settings/audit", "login": "/login",
	}
	for _, look := range browsertest.Looks() {
		t.Run(look.String(), func(t *testing.T) {
			b := logIn(t, f)
			for name, path := range screens {
				t.Run(name, func(t *testing.T) {
					tab := b.Tab(t, look)
					tab.Open(f.url + path)
					tab.FitsWidth()
					tab.Axe()
					tab.Screenshot(name)
					if tab.OpenDetails() {
						tab.FitsWidth()
						tab.Axe()
						tab.Screenshot(name + "-open")
					}
					ground := browsertest.Eval[string](tab, "getComputedStyle(document.body).backgroundColor")
					if want := map[bool]string{false: "rgb(255, 255, 255)",
						true: "rgb(13, 17, 23)"}[look.Dark]; ground != want {
						t.Errorf("the background is %s, want %s", ground, want)
					}
				})
			}
		})
	}
}

// A page goes on after the server has refused its stream, and does not lose what a person types when the crawl ends
// meanwhile.
func TestBrowserFollows(t *testing.T) {
	t.Parallel()
	f := newDashboard(t, smallSite(), "")
	b := logIn(t, f)
	f.site.Hold(10)
	c := f.submit(service.Submission{Name: "Before"})
	f.await(c.ID, service.Running)
	tab := b.Tab(t, browsertest.Look{})
	p := &person{t, tab}
	f.refuse.Store(true)
	tab.Open(f.url + "/crawls/" + c.ID)
	p.sees("that there is no stream", "document.getElementById('connection').textContent.startsWith('Not connected')")
	tab.Faults() // the browser reports the refusal
	f.refuse.Store(false)
	p.sees("the stream", "document.getElementById('connection').textContent === 'Live'")
	tab.Faults()
	p.focus("the name", field("name"))
	p.press(" and after")
	browsertest.Eval[chromedp.Void](tab, "window.same = true; undefined")
	f.site.Release()
	f.await(c.ID, service.Complete)
	p.sees("the crawl is complete", heading("complete"))
	if !tab.Holds("window.same && document.activeElement.name === 'name' && " +
		"document.activeElement.value.includes('and after')") {
		t.Error("what was typed is lost")
	}
	p.press(kb.Enter)
	p.sees("the new name", heading("and after"))
	p.sees("the charts of the report", "document.querySelector('#chart-status') !== null")
}
