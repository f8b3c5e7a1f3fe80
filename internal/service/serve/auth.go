package serve

import (
	"bytes"
	"crypto/subtle"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/service"
)

// cookieName is the name of the cookie of a session.
const cookieName = "mapwright_session"

// credential identifies the caller of a request: a key, a session of the web pages, or the token of a login link.
type credential struct {
	secret  string
	session bool
	link    bool
	csrf    string // of a session: what requests that change something carry in a header. Other sites cannot read it
}

// credentialOf is the credential of a request. An Authorization header counts more than a cookie.
func credentialOf(r *http.Request) (credential, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, secret, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "Bearer") || secret == "" {
			return credential{}, refuse(service.ErrUnauthorized, "the Authorization header must be 'Bearer KEY'")
		}
		return credential{secret: strings.TrimSpace(secret)}, nil
	}
	if cookie, err := r.Cookie(cookieName); err == nil && cookie.Value != "" {
		return credential{secret: cookie.Value, session: true}, nil
	}
	return credential{}, refuse(service.ErrUnauthorized,
		"send a key as 'Authorization: Bearer KEY'; 'mapwright keys create' makes one")
}

// caller finds the account and the scopes of a credential.
func (s *Server) caller(r *http.Request, c *credential) (*service.Caller, error) {
	switch {
	case c.link:
		return s.Service.Accounts.Login(r.Context(), c.secret)
	case !c.session:
		return s.Service.Accounts.Authenticate(r.Context(), c.secret)
	}
	session, err := s.Service.Accounts.Session(r.Context(), c.secret)
	if err != nil {
		return nil, err
	}
	c.csrf = session.CSRF
	return session.Caller, nil
}

// hasEnded says whether the credential of a request has ended since the request began.
func (c *call) hasEnded() bool {
	cred := c.cred // another goroutine may call this
	_, err := c.Server.caller(c.r, &cred)
	e, ok := errors.AsType[*service.Error](err)
	return ok && e.Code == service.ErrUnauthorized
}

// admit finds the caller of the request by a credential, and waits for the turn of the request among those of its
// account. Unless it returns an error, endTurn must be called. Turns bound lookups; rates and turns bound the requests
// of a caller. Failures are not counted: people behind one address would pay for those of others.
func (c *call) admit(cred credential) error {
	remote, conn := c.remote(c.r), connectionOf(c.ctx)
	conn.pause()
	turn := c.limits.lookups.ask(clientAt(remote)...)
	if turn != nil && conn.wasKnown() {
		turn.hurry() // the rate of its key bounds how often it does
	}
	end, ok := turn.await(c.ctx)
	if !ok {
		return tooMany(c.w, time.Second)
	}
	caller, err := c.Server.caller(c.r, &cred)
	end()
	if err != nil {
		return err
	}
	caller.Remote = remote
	c.caller, c.cred = caller, cred
	wait, ok := c.limits.keys.take(caller.Key)
	if ok {
		wait, ok = c.limits.accounts.take(caller.Account.ID)
	}
	if !ok {
		return tooMany(c.w, wait)
	}
	conn.know()
	c.Service.Accounts.Touch(c.ctx, caller)
	if c.endTurn, ok = c.limits.underway.enter(c.ctx, caller.Account.ID, caller.Key); !ok {
		return tooMany(c.w, time.Second)
	}
	return nil
}

// takeChange counts a request of a caller that changes something. It returns an error if there are too many. Keys
// that may only read can log in and out, which must not keep others from changes such as their revocation. They share
// one limit: an account can make any number of such keys.
func (s *Server) takeChange(w http.ResponseWriter, caller *service.Caller) error {
	if caller.Has(service.ScopeAdmin) {
		return nil
	}
	name := caller.Account.ID
	if !caller.Has(service.ScopeWrite) {
		name += " read"
	}
	if wait, ok := s.limits.changes.take(name); !ok {
		return tooMany(w, wait)
	}
	return nil
}

const maxForm = 1 << 20 // bytes of a form; it may have many start URLs

// readForm reads a form of at most so many bytes, and of mostFields fields.
func (c *call) readForm(most int64) error {
	text, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, most))
	if err != nil {
		return err
	}
	if bytes.Count(text, []byte{'&'}) >= mostFields {
		return errors.New("the form has too many fields")
	}
	c.r.Body = io.NopCloser(bytes.NewReader(text))
	return c.r.ParseForm()
}

// checkOrigin refuses a request of a session that changes something, unless it comes from our own pages. A form has the
// token of the session in its field csrf, other requests have it in a header.
func (c *call) checkOrigin() error {
	if c.r.Method == http.MethodGet || c.r.Method == http.MethodHead || !c.page && !c.cred.session {
		return nil
	}
	what, token, reason := "request", "", "the header X-CSRF-Token is missing or wrong: load the page again"
	if c.page {
		if err := c.readForm(maxForm); err != nil {
			return refuse(service.ErrInvalid, "The form cannot be read: it is too long or did not arrive whole.")
		}
		what, token, reason = "form", c.r.PostFormValue("csrf"), "the form is not of this session: load the page again"
	} else {
		token = c.r.Header.Get("X-CSRF-Token")
	}
	if err := c.origins.Check(c.r); err != nil {
		return refuse(service.ErrForbidden, "the "+what+" comes from another site")
	}
	if c.cred.csrf == "" || subtle.ConstantTimeCompare([]byte(token), []byte(c.cred.csrf)) != 1 {
		return refuse(service.ErrForbidden, reason)
	}
	return nil
}

// endSession ends the session of the request, if it has one.
func (c *call) endSession() error {
	cookie, err := c.r.Cookie(cookieName)
	if err != nil {
		return nil // there is none
	}
	http.SetCookie(c.w, c.cookie("", -1))
	return c.Service.Accounts.EndSession(c.ctx, cookie.Value)
}

// cookie is the cookie of a session. Scripts cannot read it, and requests of other sites do not carry it.
func (s *Server) cookie(value string, age int) *http.Cookie {
	return &http.Cookie{Name: cookieName, Value: value, Path: s.base + "/", MaxAge: age, HttpOnly: true,
		Secure: s.secure, SameSite: http.SameSiteStrictMode}
}
