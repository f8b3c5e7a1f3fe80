package service

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"

	"github.com/mapwright/mapwright/internal/page"
)

const (
	// SessionTime is how long a session of a browser lasts.
	SessionTime = 24 * time.Hour
	// loginTime is how long a login link can be used.
	loginTime = 24 * time.Hour
	// maxSessions is how many sessions a key has at once. If it begins another, the oldest ends.
	maxSessions = 100
)

// A session of a browser has a key: the key that began it, or one that a login link made for it. It ends with that key.

// browserKey is the name of keys that login links make.
const browserKey = "browser session"

// NewLogin makes the token of a login link, which begins one session with all scopes, of the account that exists from
// the start. Earlier links that were not used end.
func (a *Accounts) NewLogin(ctx context.Context) (token string, err error) {
	token = rand.Text()
	return token, a.s.Write(ctx, func(tx *Tx) error {
		account, err := firstAccount(ctx, tx)
		return errors.Join(err,
			tx.Change("DELETE FROM login"),
			tx.Insert("login", "hash, account, created_at, expires_at", hashOf(token), account, tx.now,
				tx.now.Add(loginTime)),
			tx.Audit(&Caller{System: "operator"}, "login.create", "", nil))
	})
}

// NeedsLogin says whether no user has logged in yet. The audit log is not kept for ever, so the keys of login links and
// the sessions count too.
func (a *Accounts) NeedsLogin(ctx context.Context) (bool, error) {
	n, err := Value[int](ctx, a.s.db.Read(), "SELECT EXISTS (SELECT 1 FROM api_key WHERE name = ? AND hash = '') OR "+
		"EXISTS (SELECT 1 FROM session) OR EXISTS (SELECT 1 FROM audit WHERE action = 'session.begin')", browserKey)
	return n == 0, err
}

// errBadLogin does not say whether the token is unknown, expired or used.
var errBadLogin = &Error{Code: ErrUnauthorized,
	Detail: "the login link was used already, or is too old: 'mapwright keys login' makes another"}

// Login finds the caller with the token of a login link, who may begin one session. The error is an *Error if the token
// is not valid. It writes nothing, so that tokens that are not valid hold up no writer.
func (a *Accounts) Login(ctx context.Context, token string) (*Caller, error) {
	// links of earlier versions have the name of the account, which can be that of another one by now
	account, err := One(ctx, a.s.db.Read(), accountDest, "SELECT "+accountColumns+" FROM account WHERE id = "+
		"(SELECT account FROM login WHERE hash = ? AND expires_at > ?)", hashOf(token), time.Now())
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errBadLogin
	}
	return &Caller{Account: account, Scopes: []Scope{ScopeAdmin}, login: hashOf(token)}, err
}

// BeginSession begins a session of a caller with a key or a login link, and returns its secret. It uses up the link.
func (a *Accounts) BeginSession(ctx context.Context, c *Caller) (secret string, err error) {
	secret = rand.Text() + rand.Text()
	return secret, a.s.Write(ctx, func(tx *Tx) error {
		if err := errors.Join(tx.Change("DELETE FROM login WHERE expires_at <= ?", tx.now),
			tx.Change("DELETE FROM session WHERE expires_at <= ?", tx.now)); err != nil {
			return err
		}
		ends, by := tx.now.Add(SessionTime), *c
		if c.login != "" {
			used, err := tx.Exec("DELETE FROM login WHERE hash = ?", c.login)
			if err != nil {
				return err
			}
			if used == 0 {
				return errBadLogin // since Login
			}
			// no secret has an empty hash
			key := Key{ID: NewID(), Account: c.Account.ID, Name: browserKey, Scopes: c.Scopes,
				ExpiresAt: page.Time{Time: ends}}
			if err := key.insert(tx); err != nil {
				return err
			}
			by.Key = key.ID
		}
		return errors.Join(
			tx.Change("DELETE FROM session WHERE api_key = ? AND hash NOT IN "+
				"(SELECT hash FROM session WHERE api_key = ? ORDER BY created_at DESC LIMIT ?)", by.Key, by.Key,
				maxSessions-1),
			tx.Insert("session", "hash, api_key, csrf, created_at, expires_at", hashOf(secret), by.Key, rand.Text(),
				tx.now, ends),
			touch(tx, by.Key),
			tx.Audit(&by, "session.begin", by.Key, nil))
	})
}

// Session is one session of a browser.
type Session struct {
	Caller *Caller
	CSRF   string // what requests that change something carry
}

var errSessionEnded = &Error{Code: ErrUnauthorized, Detail: "the session has ended: log in again"}

// Session finds a session by its secret. The error is an *Error if it is not valid.
func (a *Accounts) Session(ctx context.Context, secret string) (*Session, error) {
	var key string
	session, err := One(ctx, a.s.db.Read(), func(to *Session) []any { return []any{&key, &to.CSRF} },
		"SELECT api_key, csrf FROM session WHERE hash = ? AND expires_at > ?", hashOf(secret), time.Now())
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errSessionEnded
	}
	if err != nil {
		return nil, err
	}
	if session.Caller, err = a.caller(ctx, key, func(string) bool { return true }); err != nil {
		return nil, err
	}
	session.Caller.session = hashOf(secret)
	return &session, nil
}

// EndSession ends a session, and the key that was made for it.
func (a *Accounts) EndSession(ctx context.Context, secret string) error {
	return a.s.Write(ctx, func(tx *Tx) error {
		return errors.Join(
			tx.Change("UPDATE api_key SET revoked_at = ? WHERE revoked_at = 0 AND name = ? AND hash = '' AND id IN "+
				"(SELECT api_key FROM session WHERE hash = ?)", tx.now, browserKey, hashOf(secret)),
			tx.Change("DELETE FROM session WHERE hash = ?", hashOf(secret)))
	})
}
