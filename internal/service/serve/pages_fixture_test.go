package serve_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/hooks"
	"github.com/mapwright/mapwright/internal/service/hosts"
	"github.com/mapwright/mapwright/internal/service/schedules"
	"github.com/mapwright/mapwright/internal/service/serve"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// dashboard is a service with its API and its pages, and a web for it to crawl.
type dashboard struct {
	t     *testing.T
	svc   *service.Service
	site  *testweb.Server
	admin *service.Caller
	url   string // of the pages, without a slash at the end
	hooks *hooks.Hooks

	refuse atomic.Bool // event streams are refused
}

func newDashboard(t *testing.T, cfg testweb.Config, base string) *dashboard {
	t.Helper()
	site, err := testweb.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	layer := config.Layer{} // a request that is held has no time-out on a busy machine
	for name, text := range map[string]string{"profile": "own-site", "max-host-backoff-secs": "1", "timeout": "10m",
		"grace": "1s", "bloom-capacity": "20000", "resolve": site.Resolve()} {
		layer[name] = config.Given{Texts: []string{text}, From: "test"}
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	svc, err := service.Open(t.Context(), service.Options{Dir: t.TempDir(), SlotDir: t.TempDir(), MinFree: -1,
		Version: "test", Log: log, Base: []config.Layer{layer}})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &dashboard{t: t, svc: svc, site: site, url: "http://" + listener.Addr().String() + base}
	public, err := url.Parse(f.url)
	if err != nil {
		t.Fatal(err)
	}
	account, err := svc.Accounts.Get(t.Context(), service.DefaultAccount)
	if err != nil {
		t.Fatal(err)
	}
	f.admin = &service.Caller{Account: account, System: "test", Scopes: []service.Scope{service.ScopeAdmin}}
	known, err := hosts.New(t.Context(), svc, log)
	if err != nil {
		t.Fatal(err)
	}
	o := serve.Options{Service: svc, Hosts: known, Schedules: schedules.New(svc, log),
		Hooks: hooks.New(svc, hooks.Options{Log: log}), Version: "test", Log: log, RatePerKey: -1, PublicURL: public}
	f.hooks = o.Hooks
	server, err := serve.New(o)
	if err != nil {
		t.Fatal(err)
	}
	h := server.HTTP()
	whole := h.Handler
	h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.refuse.Load() && strings.HasSuffix(r.URL.Path, "/v1/events") {
			http.Error(w, "away", http.StatusBadGateway)
			return
		}
		whole.ServeHTTP(w, r)
	})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { server.Run(ctx) })
	running.Go(func() {
		if err := svc.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	running.Go(func() {
		if err := h.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		site.Release()
		server.Drain()
		err := h.Shutdown(context.Background())
		stop()
		running.Wait()
		server.Close()
		if err := errors.Join(err, svc.Close(), site.Close()); err != nil {
			t.Error(err)
		}
	})
	return f
}

// loginLink is a link that begins a session of an admin.
func (f *dashboard) loginLink() string {
	f.t.Helper()
	token, err := f.svc.Accounts.NewLogin(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return f.url + "/login?token=" + token
}

// await waits until a crawl has one of the states.
func (f *dashboard) await(id string, states ...service.State) *service.Crawl {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	for {
		added := f.svc.Events.Added()
		c, err := f.svc.Crawls.Get(ctx, f.admin, id)
		if err != nil {
			f.t.Fatal(err)
		}
		if slices.Contains(states, c.State) {
			return c
		}
		select {
		case <-added:
		case <-ctx.Done():
			f.t.Fatalf("the crawl is %s (%+v), want %s", c.State, c.Waiting, states)
		}
	}
}

// submit submits a crawl of the first host as the admin, without the form.
func (f *dashboard) submit(sub service.Submission) *service.Crawl {
	f.t.Helper()
	if sub.StartURLs == nil {
		sub.StartURLs = f.site.StartURLs()[:1]
	}
	c, err := f.svc.Crawls.Submit(f.t.Context(), f.admin, sub, "")
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// browser is a client with cookies and without scripts.
type browser struct {
	f      *dashboard
	client *http.Client
}

// page is an answer that was parsed.
type page struct {
	t      *testing.T
	status int
	at     *url.URL
	header http.Header
	text   string
	root   *html.Node
}

// newBrowser is a browser that has not logged in.
func (f *dashboard) newBrowser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	transport := &http.Transport{}
	f.t.Cleanup(transport.CloseIdleConnections)
	return &browser{f: f, client: &http.Client{Jar: jar, Transport: transport}}
}

// loggedIn is a browser with a session of an admin.
func (f *dashboard) loggedIn() *browser {
	f.t.Helper()
	b := f.newBrowser()
	p := b.get(f.loginLink())
	if p.status != http.StatusOK {
		f.t.Fatalf("the login page answers %d", p.status)
	}
	if p = b.submit(p, "", nil); p.status != http.StatusOK || !strings.Contains(p.text, "<h1>Crawls</h1>") {
		f.t.Fatalf("the login leads to %s with status %d", p.at, p.status)
	}
	return b
}

func (b *browser) read(res *http.Response, err error) *page {
	b.f.t.Helper()
	if err != nil {
		b.f.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.f.t.Fatal(err)
	}
	root, err := html.Parse(strings.NewReader(string(text)))
	if err != nil {
		b.f.t.Fatal(err)
	}
	return &page{t: b.f.t, status: res.StatusCode, at: res.Request.URL, header: res.Header, text: string(text),
		root: root}
}

// get asks for an address, which is whole or below that of the pages.
func (b *browser) get(address string) *page {
	b.f.t.Helper()
	if strings.HasPrefix(address, "/") {
		address = b.f.url + address
	}
	return b.read(b.client.Get(address))
}

// submit sends the form whose action ends so, with the values of its fields and those that are given.
func (b *browser) submit(p *page, action string, values map[string]string) *page {
	b.f.t.Helper()
	for _, form := range p.all("form") {
		if !strings.HasSuffix(attr(form, "action"), action) || attr(form, "method") != "post" {
			continue
		}
		fields := url.Values{}
		for n := range form.Descendants() {
			switch {
			case n.Type != html.ElementNode || attr(n, "name") == "" || attr(n, "type") == "checkbox":
			case n.Data == "input":
				fields.Set(attr(n, "name"), attr(n, "value"))
			case n.Data == "textarea":
				fields.Set(attr(n, "name"), textOf(n))
			case n.Data == "select":
				for _, o := range elements(n, "option") {
					if has(o, "selected") {
						fields.Set(attr(n, "name"), textOf(o))
					}
				}
			}
		}
		for name, value := range values {
			fields.Set(name, value)
		}
		to, err := p.at.Parse(attr(form, "action"))
		if err != nil {
			b.f.t.Fatal(err)
		}
		return b.read(b.client.PostForm(to.String(), fields))
	}
	b.f.t.Fatalf("%s has no form %q", p.at, action)
	return nil
}

func (p *page) all(name string) []*html.Node { return elements(p.root, name) }

// want fails if the page lacks a text.
func (p *page) want(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		if !strings.Contains(p.text, html.EscapeString(text)) && !strings.Contains(textOf(p.root), text) {
			p.t.Errorf("%s (status %d) does not contain %q", p.at, p.status, text)
		}
	}
}

// rows are the texts of the cells of the tables with a heading or caption, without heads.
func (p *page) rows(label string) (rows [][]string) {
	for _, region := range p.all("div") {
		if attr(region, "aria-label") != label {
			continue
		}
		for _, tr := range elements(region, "tr") {
			var cells []string
			for c := range tr.ChildNodes() {
				if c.Type == html.ElementNode && c.Data == "td" {
					cells = append(cells, strings.TrimSpace(textOf(c)))
				}
			}
			if len(cells) > 0 {
				rows = append(rows, cells)
			}
		}
	}
	return rows
}

func elements(n *html.Node, name string) (all []*html.Node) {
	for c := range n.Descendants() {
		if c.Type == html.ElementNode && c.Data == name {
			all = append(all, c)
		}
	}
	return all
}

func textOf(n *html.Node) string {
	out := &strings.Builder{}
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			out.WriteString(c.Data)
		}
	}
	return out.String()
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
}

// byID is the element with an id, or an empty one.
func byID(p *page, id string) *html.Node {
	for n := range p.root.Descendants() {
		if attr(n, "id") == id {
			return n
		}
	}
	p.t.Errorf("%s has no element %s", p.at, id)
	return &html.Node{}
}

// waitFor waits until something holds, which no event announces.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}
