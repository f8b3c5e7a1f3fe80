package service

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"
)

const (
	// SessionTime is how long a session of a browser lasts.
	SessionTime = 24 * time.Hour
	// loginTime is how long a login link can be used.
	loginTime = 24 * time.Hour
)

// Sessions are the sessions of browsers. A session has a key: that which began it, or one that was made for it by a
// login link. It ends with that key.
type Sessions struct{ s *Service }

// NewSessions gives access to the sessions of a service.
func NewSessions(s *Service) *Sessions { return &Sessions{s} }

// browserKey is the name of keys that login links make.
const browserKey = "browser session"

// NewLogin makes the token of a login link, which begins one session of the default account with all scopes. Earlier
// links that were not used end.
func (s *Sessions) NewLogin(ctx context.Context) (token string, err error) {
	token = rand.Text()
	return token, s.s.Write(ctx, func(tx *Tx) error {
		return errors.Join(
			tx.Change("DELETE FROM login"),
			tx.Change("INSERT INTO login (hash, account, created_at, expires_at) VALUES (?, ?, ?, ?)", hashOf(token),
				DefaultAccount, Millis(tx.now), Millis(tx.now.Add(loginTime))),
			tx.Audit(&Caller{System: "operator"}, "login.create", "", nil))
	})
}

// NeedsLogin says whether no user has logged in yet. The audit log is not kept for ever, so the keys of login links and
// the sessions count too.
func (s *Sessions) NeedsLogin(ctx context.Context) (bool, error) {
	var n int
	err := s.s.db.Read().QueryRowContext(ctx,
		"SELECT EXISTS (SELECT 1 FROM api_key WHERE name = ? AND hash = '') OR EXISTS (SELECT 1 FROM session) OR "+
			"EXISTS (SELECT 1 FROM audit WHERE action = 'session.begin')", browserKey).Scan(&n)
	return n == 0, err
}

// errBadLogin does not say whether the token is unknown, expired or used.
var errBadLogin = &Error{Code: ErrUnauthorized,
	Detail: "the login link was used already, or is too old: 'mapwright keys login' makes another"}

// Begin begins a session and returns its secret. It uses up the token of a login link or, if there is none, takes a
// key.
func (s *Sessions) Begin(ctx context.Context, token, key, remote string) (secret string, err error) {
	var caller *Caller
	if token == "" {
		if caller, err = s.s.Accounts.Authenticate(ctx, key); err != nil {
			return "", err
		}
		caller.Remote = remote
	}
	secret = rand.Text() + rand.Text()
	return secret, s.s.Write(ctx, func(tx *Tx) error {
		if err := errors.Join(tx.Change("DELETE FROM login WHERE expires_at <= ?", Millis(tx.now)),
			tx.Change("DELETE FROM session WHERE expires_at <= ?", Millis(tx.now))); err != nil {
			return err
		}
		ends := Millis(tx.now.Add(SessionTime))
		if token != "" {
			var name string
			err := tx.QueryRowContext(ctx, "SELECT account FROM login WHERE hash = ?", hashOf(token)).Scan(&name)
			if errors.Is(err, sql.ErrNoRows) {
				return errBadLogin
			}
			if err != nil {
				return err
			}
			account, err := getAccount(ctx, tx, name)
			if err != nil {
				return err
			}
			caller = &Caller{Account: account, Key: NewID(), Remote: remote}
			err = errors.Join(
				tx.Change("DELETE FROM login WHERE hash = ?", hashOf(token)),
				tx.Change("INSERT INTO api_key (id, account, name, hash, scopes_json, created_at, expires_at) VALUES "+
					"(?, ?, ?, ?, ?, ?, ?)",
					// no secret has an empty hash
					caller.Key, account.ID, browserKey, "", ToJSON([]Scope{ScopeAdmin}), Millis(tx.now), ends))
			if err != nil {
				return err
			}
		}
		return errors.Join(
			tx.Change("INSERT INTO session (hash, api_key, csrf, created_at, expires_at) VALUES (?, ?, ?, ?, ?)",
				hashOf(secret), caller.Key, rand.Text(), Millis(tx.now), ends),
			tx.Audit(caller, "session.begin", caller.Key, nil))
	})
}

// Session is one session of a browser.
type Session struct {
	Caller *Caller
	CSRF   string // what requests that change something carry
}

// Get finds a session by its secret. The error is an *Error if it is not valid.
func (s *Sessions) Get(ctx context.Context, secret string) (*Session, error) {
	var key, csrf string
	var expires int64
	err := s.s.db.Read().QueryRowContext(ctx, "SELECT api_key, csrf, expires_at FROM session WHERE hash = ?",
		hashOf(secret)).Scan(&key, &csrf, &expires)
	if errors.Is(err, sql.ErrNoRows) || err == nil && expires <= Millis(time.Now()) {
		return nil, &Error{Code: ErrUnauthorized, Detail: "the session has ended: log in again"}
	}
	if err != nil {
		return nil, err
	}
	caller, err := s.s.Accounts.callerOf(ctx, key)
	if err != nil {
		return nil, err
	}
	return &Session{Caller: caller, CSRF: csrf}, nil
}

// End ends a session, and the key that was made for it.
func (s *Sessions) End(ctx context.Context, secret string) error {
	return s.s.Write(ctx, func(tx *Tx) error {
		return errors.Join(
			tx.Change("UPDATE api_key SET revoked_at = ? WHERE revoked_at = 0 AND name = ? AND hash = '' AND id IN "+
				"(SELECT api_key FROM session WHERE hash = ?)", Millis(tx.now), browserKey, hashOf(secret)),
			tx.Change("DELETE FROM session WHERE hash = ?", hashOf(secret)))
	})
}
