package serve

import (
	_ "embed"
	"errors"
	"html/template"
	"net/http"
	"strings"
	"sync"

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
	if err := c.readForm(loginBody); err != nil {
		return refuse(service.ErrBody, "the form cannot be read")
	}
	cred := credential{secret: c.r.PostForm.Get("token"), link: true}
	if cred.secret == "" {
		cred = credential{secret: strings.TrimSpace(c.r.PostForm.Get("key"))}
	}
	secret, err := c.beginSession(cred)
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

// beginSession begins a session and returns its secret. A login is a change of its account: it leaves a session and an
// entry in the audit log.
func (c *call) beginSession(cred credential) (secret string, err error) {
	if err := c.admit(cred); err != nil {
		return "", err
	}
	defer c.endTurn()
	if err := c.takeChange(c.w, c.caller); err != nil {
		return "", err
	}
	return c.Service.Accounts.BeginSession(c.ctx, c.caller)
}

// leave ends the session of the caller.
func (c *call) leave() error {
	return c.noContent(c.endSession())
}
