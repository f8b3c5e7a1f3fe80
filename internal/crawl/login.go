package crawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// maxLogins is how many times a run logs in again after the site has forgotten the session.
const maxLogins = 10

// A login logs in to a site by its form, and again when a page looks logged out. The session is in the cookies of the
// fetcher. Its requests are a few, and do not wait for the pace of the host.
type login struct {
	fetcher fetch.Fetcher
	page    weburl.URL // the page with the form, as the user gave it
	shown   weburl.URL // where redirects of page led at the first login; written by logIn alone
	fields  url.Values // what the user fills in
	warn    func(format string, args ...any)

	mu      sync.Mutex
	session int                 // guarded by mu; counts how often it has logged in
	causes  map[weburl.URL]bool // guarded by mu; pages after which it has logged in again
	gaveUp  bool                // guarded by mu
}

// logIn logs in by the settings. It returns nil if they name no login.
func logIn(ctx context.Context, f fetch.Fetcher, s *config.Settings, warn func(string, ...any)) (*login, error) {
	if s.Login == "" {
		return nil, nil
	}
	l := &login{fetcher: f, warn: warn, session: 1, causes: map[weburl.URL]bool{}}
	var err error
	if l.page, err = weburl.Parse(s.Login); err != nil {
		return nil, err
	}
	if l.fields, err = readLoginData(s.LoginData); err != nil {
		return nil, err
	}
	l.shown, err = l.do(ctx)
	return l, err
}

// LogIn logs a fetcher in by the settings, if they say so.
func LogIn(ctx context.Context, f fetch.Fetcher, s *config.Settings) error {
	_, err := logIn(ctx, f, s, nil)
	return err
}

// readLoginData reads a file of lines NAME=VALUE. The error does not repeat a line, which is a secret.
func readLoginData(path string) (url.Values, error) {
	lines, err := config.ReadItems([]string{"@" + path}, func(line string) error {
		if name, _, ok := strings.Cut(line, "="); !ok || strings.TrimSpace(name) == "" {
			return errors.New("it must have the form NAME=VALUE, where NAME is a field of the form")
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) && strings.Contains(path, "=") {
		return nil, errors.New("it must be a file with lines NAME=VALUE, and there is none of this name (it is not " +
			"repeated here, because it may be a secret)")
	}
	if err != nil {
		return nil, err
	}
	fields := url.Values{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		fields.Add(strings.TrimSpace(name), value)
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("%s has no line NAME=VALUE", path)
	}
	return fields, nil
}

// do gets the form, fills it in and sends it. It fails unless the site then shows another page than the form. It
// returns the URL of the page that had the form.
func (l *login) do(ctx context.Context) (at weburl.URL, err error) {
	fail := func(format string, args ...any) (weburl.URL, error) {
		err := fmt.Errorf(format, args...)
		if _, away := errors.AsType[*fetch.Error](err); away { // the next attempt may succeed as it is
			return at, fmt.Errorf("no login at %s: %w", l.page, err)
		}
		return at, fmt.Errorf("%w: login at %s: %w", ErrLogin, l.page, err)
	}
	var body []byte
	at, body, err = l.get(ctx, fetch.Request{URL: l.page})
	if err != nil {
		return fail("%w", err)
	}
	if body == nil {
		return fail("it leads to %s, which is another site: give the page there that has the form", at.Origin())
	}
	form, err := findForm(body, l.fields)
	if err != nil {
		return fail("%w", err)
	}
	target, err := form.target(at)
	if err != nil {
		return fail("the form has a target that is no URL: %w", err)
	}
	if target.Origin() != at.Origin() {
		return fail("the form is sent to %s, which is another site: passwords are sent to the site of the form only",
			target.Origin())
	}
	send := fetch.Request{URL: target, Form: form.fill(l.fields),
		Header: http.Header{"Referer": {at.String()}, "Origin": {at.Origin()}}}
	if _, body, err = l.get(ctx, send); err != nil {
		return fail("%w", err)
	}
	if l.showsForm(body) {
		return fail("the site shows the form again: check the values in the file of --login-data")
	}
	return at, nil
}

// ErrLogin means that a site did not let the user in, or has no form as expected.
var ErrLogin = errors.New("not logged in")

// get makes a request, and follows redirects within the site. It returns the last page, or no body if the redirects
// leave the site. http may lead to https.
func (l *login) get(ctx context.Context, r fetch.Request) (at weburl.URL, body []byte, err error) {
	var site fetch.Audience
	site.AddURL(r.URL)
	for range scope.MaxHops {
		r.NoArchive = true // the answers have the session
		resp, err := l.fetcher.Do(ctx, r)
		if err != nil {
			resp.Close()
			return r.URL, nil, err
		}
		status, location := resp.Status, resp.Location
		body := append([]byte{}, resp.Body...)
		resp.Close()
		switch {
		case status >= 300 && status < 400 && location != "":
			next, err := r.URL.Resolve(location)
			if err == nil && scope.ExceedsLimit(next) {
				err = weburl.ErrLength
			}
			if err != nil {
				return r.URL, nil, fmt.Errorf("it leads to something that is no URL: %w", err)
			}
			if !site.Has(next) {
				return next, nil, nil
			}
			if status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect {
				r.Form, r.Header = nil, nil // the others ask for the next page, as after a POST
			}
			r.URL = next
		case status < 200 || status > 299:
			return r.URL, nil, fmt.Errorf("the site answered %s%s with status %d", r.URL.Origin(), r.URL.Path(), status)
		default:
			return r.URL, body, nil
		}
	}
	return r.URL, nil, fmt.Errorf("more than %d redirects in a row", scope.MaxHops)
}

// showsForm reports whether a page has the form of the login. Most pages are judged by their text alone.
func (l *login) showsForm(body []byte) bool {
	for name := range l.fields {
		if !bytes.Contains(body, []byte(name)) {
			return false
		}
	}
	_, err := findForm(body, l.fields)
	return err == nil
}

// isLoginPage reports whether a URL is the page with the form, with any query.
func (l *login) isLoginPage(u weburl.URL) bool {
	is := func(page weburl.URL) bool { return u.Origin() == page.Origin() && u.Path() == page.Path() }
	return is(l.page) || is(l.shown)
}

// isLoggedOut reports whether an answer is for visitors who are not logged in: it leads to the login page, or has the
// form. The login page itself may have the form for everyone.
func (l *login) isLoggedOut(u weburl.URL, resp *fetch.Response) bool {
	if l.isLoginPage(u) || resp == nil {
		return false
	}
	if resp.Location != "" {
		to, err := u.Resolve(resp.Location)
		return err == nil && l.isLoginPage(to)
	}
	return l.showsForm(resp.Body)
}

// number is that of the session, for renew.
func (l *login) number() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// renew is called after a page looked logged out that was asked for in a session. It logs in again, unless that was
// done since, and reports whether the page should be asked for again. It is not if this page has led to another login
// before, as one does that logs out.
func (l *login) renew(ctx context.Context, page weburl.URL, session int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if session != l.session {
		return true
	}
	if l.causes[page] || l.gaveUp {
		return false
	}
	if len(l.causes) == 0 {
		l.warn("%s was answered as for visitors who are not logged in, so the crawl logged in again. If a link of the "+
			"site logs out, leave it out, such as with --exclude '/logout'", page)
	}
	err := fmt.Errorf("the site has forgotten the session %d times", maxLogins+1)
	if len(l.causes) < maxLogins {
		l.causes[page] = true
		_, err = l.do(ctx)
	}
	if ctx.Err() != nil {
		return true // the crawl stops, and the page stays in the queue
	}
	if err != nil {
		l.gaveUp = true
		l.warn("pages from %s on are recorded as for visitors who are not logged in: %v", page, err)
		return false
	}
	l.session++
	return true
}

// stayLoggedIn logs in again if the page looks logged out, and puts the page back into the queue.
func (w *worker) stayLoggedIn(ctx context.Context) (ended bool, err error) {
	if w.login == nil || w.failed != nil || !w.login.isLoggedOut(w.link.URL, w.resp) ||
		!w.login.renew(ctx, w.link.URL, w.session) {
		return false, nil
	}
	_, err = w.done(w.lease, frontier.Result{Class: w.result.Class, Latency: w.result.Latency, Lag: w.result.Lag})
	return true, err
}

// checkLoginData reads the file of a login, if there is one.
func checkLoginData(s *config.Settings) error {
	if s.LoginData == "" {
		return nil
	}
	_, err := readLoginData(s.LoginData)
	return err
}
