//go:build browser

package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// Look is how a page is looked at.
type Look struct {
	Width, Height int64 // in pixels; 0 means 1440 and 900
	Dark          bool
	NoScript      bool // scripts of pages do not run
}

// String names the look, for files and tests.
func (l Look) String() string {
	name := fmt.Sprintf("%d-%s", l.size().Width, map[bool]string{false: "light", true: "dark"}[l.Dark])
	if l.NoScript {
		name += "-noscript"
	}
	return name
}

func (l Look) size() Look {
	if l.Width == 0 {
		l.Width, l.Height = 1440, 900
	}
	return l
}

// Looks are the ones that every page must be usable in.
func Looks() []Look {
	return []Look{{Width: 1440, Height: 900}, {Width: 1440, Height: 900, Dark: true}, {Width: 360, Height: 740},
		{Width: 360, Height: 740, Dark: true}, {Width: 360, Height: 740, NoScript: true}}
}

// Tab is a tab of a browser. Its methods fail the test on an error.
type Tab struct {
	t     *testing.T
	b     *Browser
	ctx   context.Context
	look  Look
	wg    sync.WaitGroup // of the goroutines that listen; they end with ctx
	heard chan string    // marks of Faults that came back from the console

	mu      sync.Mutex
	allowed []string // guarded by mu; prefixes of addresses that may be requested
	faults  []string // guarded by mu
	marks   int      // guarded by mu
}

// Tab opens a tab. It is closed, and what went wrong in it is reported, when the test ends.
func (b *Browser) Tab(t *testing.T, look Look) *Tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	tab := &Tab{t: t, b: b, ctx: ctx, look: look.size(), heard: make(chan string, 1),
		allowed: []string{"data:", "about:blank"}}
	t.Cleanup(func() {
		faults := tab.Faults()
		cancel()
		tab.wg.Wait()
		for _, fault := range faults {
			t.Errorf("%s: %s", look, fault)
		}
	})
	tab.Do()
	console, requests := chromedp.Console(ctx), chromedp.Events(ctx, network.RequestWillBeSent)
	tab.wg.Go(func() { tab.hear(console) })
	tab.wg.Go(func() { tab.watch(requests) })
	scheme := "light"
	if look.Dark {
		scheme = "dark"
	}
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme},
		{Name: "prefers-reduced-motion", Value: "reduce"}}
	tab.Do(chromedp.EmulateViewport(tab.look.Width, tab.look.Height),
		Call(network.Enable, network.EnableParams{}),
		Call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}))
	tab.disableScripts(look.NoScript)
	return tab
}

func (p *Tab) disableScripts(disabled bool) {
	p.t.Helper()
	p.Do(Call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: disabled}))
}

// Call is a command of the protocol as an action.
func Call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// mark begins what Faults writes to the console.
const mark = "browsertest: mark "

// hear reads the console: what pages write, exceptions, and what the browser says of pages, such as violations of a
// policy.
func (p *Tab) hear(messages iter.Seq2[chromedp.ConsoleMessage, error]) {
	for m, err := range messages {
		switch {
		case err != nil:
			if p.ctx.Err() == nil {
				p.fault("read the console: %v", err)
			}
			return
		case strings.HasPrefix(m.Text, mark):
			p.heard <- m.Text
		case m.Type == chromedp.ConsoleError, m.Type == chromedp.ConsoleWarning, m.IsException(),
			m.Source == "security":
			p.fault("console: %s %s %s", m.Source, m, m.URL)
		}
	}
}

// watch reads the requests of the tab.
func (p *Tab) watch(requests iter.Seq2[network.EventRequestWillBeSent, error]) {
	for r, err := range requests {
		if err != nil {
			if p.ctx.Err() == nil {
				p.fault("read the requests: %v", err)
			}
			return
		}
		if !p.mayRequest(r.Request.URL) {
			p.fault("request to %s", r.Request.URL)
		}
	}
}

func (p *Tab) mayRequest(url string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, prefix := range p.allowed {
		if strings.HasPrefix(url, prefix) {
			return true
		}
	}
	return false
}

func (p *Tab) fault(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// Faults are what went wrong since the last call: console errors, exceptions, violations of the policy, requests
// elsewhere. They are reported once. It waits until everything has been read that the console got before.
func (p *Tab) Faults() []string {
	p.t.Helper()
	p.mu.Lock()
	p.marks++
	text := fmt.Sprint(mark, p.marks)
	p.mu.Unlock()
	p.Do(chromedp.Evaluate[chromedp.Void]("console.debug(" + quote(text) + ")"))
	for heard := ""; heard != text; {
		select {
		case heard = <-p.heard:
		case <-p.ctx.Done():
			p.t.Fatalf("%s: %v", p.look, p.ctx.Err())
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.faults
	p.faults = nil
	return found
}

// quote writes a text as JavaScript.
func quote(text string) string {
	b, _ := json.Marshal(text) // a string always has a form
	return string(b)
}

// allow allows requests to addresses with a prefix.
func (p *Tab) allow(prefix string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.allowed = append(p.allowed, prefix)
}

// Open opens an address and waits until it is loaded. Requests to its origin are allowed; of a file, requests to that
// file.
func (p *Tab) Open(url string) {
	p.t.Helper()
	allowed := url
	if rest, isHTTP := strings.CutPrefix(url, "http://"); isHTTP {
		host, _, _ := strings.Cut(rest, "/")
		allowed = "http://" + host + "/"
	}
	p.allow(allowed)
	p.Do(chromedp.Navigate(url))
}

// OpenFile opens a file from disk.
func (p *Tab) OpenFile(path string) {
	p.t.Helper()
	p.Open("file://" + filepath.ToSlash(path))
}

// Do runs actions of package chromedp.
func (p *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.t.Fatalf("%s: %v", p.look, err)
	}
}

// Eval is the value of an expression in the page. It waits if that is a promise, which is never settled in a tab
// without scripts.
func Eval[T any](p *Tab, expression string) T {
	p.t.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %s: %v", p.look, expression[:min(len(expression), 200)], err)
	}
	return value
}

// Screenshot keeps a picture of the whole page as NAME-LOOK.png in the directory that MAPWRIGHT_SCREENSHOTS names, if
// it names one.
func (p *Tab) Screenshot(name string) {
	p.t.Helper()
	p.picture(name, chromedp.FullScreenshot(100))
}

// ScreenshotOfView is Screenshot for the part of the page that is visible.
func (p *Tab) ScreenshotOfView(name string) {
	p.t.Helper()
	p.picture(name, chromedp.CaptureScreenshot())
}

func (p *Tab) picture(name string, take chromedp.Action[[]byte]) {
	p.t.Helper()
	if p.b.shots == "" {
		return
	}
	picture, err := chromedp.Run(p.ctx, take)
	if err == nil {
		err = os.MkdirAll(p.b.shots, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(p.b.shots, name+"-"+p.look.String()+".png"), picture, 0o644)
	}
	if err != nil {
		p.t.Fatalf("%s: %v", p.look, err)
	}
}

// OpenDetails opens everything that is folded, and reports whether there was any.
func (p *Tab) OpenDetails() bool {
	p.t.Helper()
	return Eval[int](p, `[...document.querySelectorAll("details:not([open])")].filter(d => d.open = true).length`) > 0
}

// FitsWidth fails the test if the page is wider than the tab, so that people must scroll sideways. What is wider in an
// element that scrolls by itself does not count.
func (p *Tab) FitsWidth() {
	p.t.Helper()
	width := Eval[struct{ Page, Tab int64 }](p,
		`({Page: document.documentElement.scrollWidth, Tab: document.documentElement.clientWidth})`)
	if width.Page > width.Tab {
		p.t.Errorf("%s: the page is %d pixels wide, the tab %d", p.look, width.Page, width.Tab)
	}
}

// Axe fails the test if axe-core finds a fault that is serious or critical.
func (p *Tab) Axe() {
	p.t.Helper()
	if p.look.NoScript {
		// The page is loaded, and its own scripts did not run.
		p.disableScripts(false)
		defer p.disableScripts(true)
	}
	axe, err := os.ReadFile(fromRoot(p.t, "bin/axe-core/axe.min.js"))
	if err != nil {
		p.t.Fatalf("axe-core is missing: run scripts/need-chromium.sh --install (%v)", err)
	}
	Eval[chromedp.Void](p, string(axe)+"; undefined")
	found := Eval[[]struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML, FailureSummary string }
	}](p, `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v => ({id: v.id, impact: v.impact, help: v.help,
		nodes: v.nodes.slice(0, 3).map(n => ({html: n.html.slice(0, 300), failureSummary: n.failureSummary}))})))`)
	for _, v := range found {
		if v.Impact == "serious" || v.Impact == "critical" {
			p.t.Errorf("%s: axe-core: %s (%s): %s: %+v", p.look, v.ID, v.Impact, v.Help, v.Nodes)
		}
	}
}
