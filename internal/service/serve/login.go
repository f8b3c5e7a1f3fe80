package serve

import (
	_ "embed"
	"errors"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/internal/service"
)

//go:embed login.html
var loginHTML string

var loginPage = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("login").Parse(loginHTML))
})

// loginPolicy is the Content-Security-Policy of the login page.
var loginPolicy = sync.OnceValue(func() string {
	return "default-src 'none'; style-src " + ui.Source(loginStyle()) +
		"; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
})

// loginView is what the login page shows.
type loginView struct {
	Style  template.CSS
	Action string // address of the form
	Token  string // of a login link; empty asks for a key
	Error  string
}

// showLogin answers with the login page. Reading it changes nothing: programs that look at links in messages must not
// use the token up.
func (c *call) showLogin() error {
	q := c.query()
	view := loginView{Token: q.text("token")}
	if err := q.done(); err != nil {
		return err
	}
	return c.renderLogin(http.StatusOK, view)
}

func (c *call) renderLogin(status int, view loginView) error {
	view.Action, view.Style = c.link("/login"), template.CSS(loginStyle())
	var text strings.Builder
	if err := loginPage().Execute(&text, view); err != nil {
		return err
	}
	h := c.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", loginPolicy())
	h.Set("Referrer-Policy", "same-origin") // without a referrer, forms have the origin null
	c.w.WriteHeader(status)
	_, _ = c.w.Write([]byte(text.String())) // a client that has gone
	return nil
}

// loginStyle is the style sheet of all pages, and what the login page has beside it.
var loginStyle = sync.OnceValue(func() string {
	return ui.StyleSheet() + `main { max-width: 26rem; margin: 15vh auto 0; }
input, button { font: inherit; padding: .5rem .75rem; width: 100%; margin-top: .5rem; color: var(--text);
  background: var(--bg); border: 1px solid var(--muted); border-radius: 6px; }
.error { border-left: .25rem solid var(--bad); padding-left: .75rem; }
`
})

const loginBody = 16 << 10 // bytes of the form

// enter begins a session, by the token of a login link, which is used up, or by a key.
func (c *call) enter() error {
	if err := c.origins.Check(c.r); err != nil {
		return refuse(service.ErrForbidden, "the request comes from another site")
	}
	remote := c.remote(c.r)
	if wait, ok := c.limits.failures.take(networkOf(remote)); !ok {
		return tooMany(c.w, wait)
	}
	if err := c.readForm(loginBody); err != nil {
		return refuse(service.ErrBody, "the form cannot be read")
	}
	token, key := c.r.PostForm.Get("token"), strings.TrimSpace(c.r.PostForm.Get("key"))
	connectionOf(c.ctx).pause()
	end, ok := c.limits.logins.enter(c.ctx, clientAt(remote)...)
	if !ok {
		return tooMany(c.w, time.Second)
	}
	defer end()
	if err := c.takeLogin(token, key); err != nil {
		return err
	}
	secret, err := c.Service.Accounts.BeginSession(c.ctx, token, key, remote)
	if e, ok := errors.AsType[*service.Error](err); ok && e.Code == service.ErrUnauthorized {
		return c.renderLogin(http.StatusUnauthorized, loginView{Error: e.Detail})
	}
	if err != nil {
		return err
	}
	http.SetCookie(c.w, c.cookie(secret, int(service.SessionTime.Seconds())))
	http.Redirect(c.w, c.r, c.link("/"), http.StatusSeeOther)
	return nil
}

// takeLogin counts a login by a key as a request and a change of its account: it leaves a session and an entry in the
// audit log. A link begins one session only, and a key that is not valid none.
func (c *call) takeLogin(token, key string) error {
	if token != "" {
		return nil
	}
	caller, err := c.Service.Accounts.Authenticate(c.ctx, key)
	if err != nil {
		return nil // BeginSession says it
	}
	if err := c.takeRequest(c.w, caller); err != nil {
		return err
	}
	return c.takeChange(c.w, caller)
}

// leave ends the session of the caller.
func (c *call) leave() error {
	return c.noContent(c.endSession())
}
