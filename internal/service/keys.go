package service

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// keyPrefix begins every key, so that people and scanners recognise one.
const keyPrefix = "mw_"

// touchEvery is how exactly the last use of a key is recorded.
const touchEvery = time.Minute

const selectKey = "SELECT id, account, name, scopes_json, created_at, last_used_at, expires_at, revoked_at, hash " +
	"FROM api_key "

func keyDest(k *Key) []any {
	return []any{&k.ID, &k.Account, &k.Name, &k.Scopes, &k.CreatedAt, &k.LastUsedAt, &k.ExpiresAt, &k.RevokedAt,
		&k.hash}
}

// mostKeys bounds the keys of an account that are valid or were made within a day. An admin may make more.
const mostKeys = 100

// CreateKey makes a key of an account, which may be given by its name; without one, of the account that exists from the
// start. Secret is in the answer only. The key can do no
// more than the caller, and ends with it at the latest.
func (a *Accounts) CreateKey(ctx context.Context, c *Caller, k Key) (Key, error) {
	var faults []FieldError
	if k.Name != "" {
		faults = checkName("name", k.Name)
	}
	switch {
	case k.Scopes == nil:
		k.Scopes = []Scope{ScopeRead, ScopeWrite}
	case len(k.Scopes) == 0:
		faults = append(faults, FieldError{"scopes", "missing",
			"at least one scope is needed; scopes are read, write and admin"})
	}
	for _, s := range k.Scopes {
		if !slices.Contains(Scopes(), s) {
			faults = append(faults, FieldError{"scopes", "unknown",
				fmt.Sprintf("there is no scope %q; scopes are read, write and admin", s)})
		} else if !c.Has(s) {
			faults = append(faults, FieldError{"scopes", "not_allowed",
				fmt.Sprintf("a key cannot give a scope that it does not have: %s", s)})
		}
	}
	k.Scopes = slices.DeleteFunc(Scopes(), func(s Scope) bool { return !slices.Contains(k.Scopes, s) }) // each once
	if k.ExpiresAt.IsZero() {
		k.ExpiresAt = c.expires
	}
	switch {
	case !k.ExpiresAt.IsZero() && !k.ExpiresAt.After(time.Now()):
		faults = append(faults, FieldError{"expires_at", "invalid", "it is in the past"})
	case !c.expires.IsZero() && k.ExpiresAt.After(c.expires.Time):
		faults = append(faults, FieldError{"expires_at", "not_allowed",
			fmt.Sprintf("a key cannot outlive the one that makes it, which ends at %s",
				c.expires.Format(time.RFC3339))})
	}
	if err := Invalid("the key", faults); err != nil {
		return Key{}, err
	}
	k.ID = NewID()
	k.Secret = keyPrefix + k.ID + "_" + rand.Text()
	err := a.s.Add(ctx, func(tx *Tx) (err error) {
		if k.Account == "" {
			if k.Account, err = firstAccount(ctx, tx); err != nil {
				return err
			}
		}
		account, err := getAccount(ctx, tx, k.Account)
		if err != nil {
			return err
		}
		k.Account, k.CreatedAt = account.ID, TimeOf(Millis(tx.now))
		if err := checkKeyCount(ctx, tx, c, k.Account); err != nil {
			return err
		}
		k.hash = hashOf(k.Secret)
		return errors.Join(k.insert(tx), tx.Audit(c, "key.create", k.ID,
			map[string]any{"account": k.Account, "name": k.Name, "scopes": k.Scopes}))
	})
	if err != nil {
		return Key{}, err
	}
	return k, nil
}

func (k *Key) insert(tx *Tx) error {
	return tx.Insert("api_key", "id, account, name, hash, scopes_json, created_at, expires_at", k.ID, k.Account, k.Name,
		k.hash, k.Scopes, tx.now, k.ExpiresAt)
}

// checkKeyCount refuses a key if the account has as many as it may have.
func checkKeyCount(ctx context.Context, tx *Tx, c *Caller, account string) error {
	if c.Has(ScopeAdmin) {
		return nil
	}
	n, err := Value[int](ctx, tx, "SELECT COUNT(*) FROM api_key WHERE account = ? AND (revoked_at = 0 AND (expires_at "+
		"= 0 OR expires_at > ?) OR created_at > ?)", account, tx.now, tx.now.Add(-24*time.Hour))
	if err == nil && n >= mostKeys {
		return &Error{Code: ErrPlanLimit,
			Detail: fmt.Sprintf("an account may have %d keys that are valid or were made within a day: revoke some, "+
				"or wait", mostKeys)}
	}
	return err
}

// hashOf is the stored form of a secret. Secrets are random and long, so that a slow hash would gain nothing.
func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Keys returns the keys of an account, or of all accounts if none is given, oldest first.
func (a *Accounts) Keys(ctx context.Context, account string) ([]Key, error) {
	return Collect(ctx, a.s.db.Read(), keyDest, selectKey+"WHERE account = ? OR ? = '' ORDER BY id", account, account)
}

// RevokeKey makes a key invalid. The key must not have more scopes than the caller and, if account is given, must
// belong to it. A key may be revoked again.
func (a *Accounts) RevokeKey(ctx context.Context, c *Caller, account, id string) error {
	return a.s.Write(ctx, func(tx *Tx) error {
		key, err := One(ctx, tx, keyDest, selectKey+"WHERE id = ? AND (account = ? OR ? = '')", id, account, account)
		if err != nil {
			return orNotFound(err, "key", id)
		}
		if !c.MayRevoke(&key) {
			return &Error{Code: ErrForbidden, Detail: "the key has more scopes than the one that is to revoke it: " +
				Join(key.Scopes, ", ")}
		}
		return errors.Join(tx.Audit(c, "key.revoke", id, nil), // first: a key may revoke itself
			tx.Change("UPDATE api_key SET revoked_at = ? WHERE id = ? AND revoked_at = 0", tx.now, id))
	})
}

// errBadKey does not say whether the key is unknown, expired or revoked.
var errBadKey = &Error{Code: ErrUnauthorized, Detail: "the key is not valid: it may be mistyped, expired or revoked"}

// Authenticate finds the caller with a key. The error is an *Error if the key is not valid.
func (a *Accounts) Authenticate(ctx context.Context, secret string) (*Caller, error) {
	text, ok := strings.CutPrefix(secret, keyPrefix)
	id, _, found := strings.Cut(text, "_")
	if !ok || !found || !isID(id) {
		return nil, errBadKey
	}
	return a.caller(ctx, id, func(hash string) bool {
		return subtle.ConstantTimeCompare([]byte(hash), []byte(hashOf(secret))) == 1
	})
}

// caller finds the caller with the id of a key whose hash is right. The error is an *Error if the key is not valid.
func (a *Accounts) caller(ctx context.Context, id string, isRight func(hash string) bool) (*Caller, error) {
	key, err := One(ctx, a.s.db.Read(), keyDest, selectKey+"WHERE id = ?", id)
	if errors.Is(err, sql.ErrNoRows) || err == nil && (key.State() != KeyValid || !isRight(key.hash)) {
		return nil, errBadKey
	}
	if err != nil {
		return nil, err
	}
	account, err := a.Get(ctx, key.Account)
	if err != nil {
		return nil, err
	}
	c := &Caller{Account: account, Key: key.ID, Scopes: key.Scopes, used: key.LastUsedAt}
	if key.hash != "" { // else it is of a login link and ends with its session, but keys made by it last
		c.expires = key.ExpiresAt
	}
	return c, nil
}

// Touch records that the key of a caller was used. A login link has none yet.
func (a *Accounts) Touch(ctx context.Context, c *Caller) {
	if c.Key == "" || time.Since(c.used.Time) < touchEvery {
		return
	}
	if err := a.s.Write(ctx, func(tx *Tx) error { return touch(tx, c.Key) }); err != nil {
		// such as a full disk, on which everything can still be read
		a.s.o.Log.Warn("cannot record the use of a key", "key", c.Key, "error", err)
	}
}

func touch(tx *Tx, key string) error {
	return tx.Change("UPDATE api_key SET last_used_at = ? WHERE id = ?", tx.now, key)
}
