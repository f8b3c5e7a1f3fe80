package service

import (
	"cmp"
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

const keyColumns = "api_key.id, api_key.account, api_key.name, api_key.scopes_json, api_key.created_at, " +
	"api_key.last_used_at, api_key.expires_at, api_key.revoked_at"

func scanKey(row Scanner, more ...any) (k Key, err error) {
	var scopes string
	var created, used, expires, revoked int64
	if err := row.Scan(append([]any{&k.ID, &k.Account, &k.Name, &scopes, &created, &used, &expires, &revoked},
		more...)...); err != nil {
		return k, err
	}
	k.CreatedAt, k.LastUsedAt, k.ExpiresAt, k.RevokedAt = TimeOf(created), TimeOf(used), TimeOf(expires),
		TimeOf(revoked)
	return k, FromJSON(scopes, &k.Scopes)
}

// mostKeys bounds the keys of an account that are valid or were made within a day. An admin may make more.
const mostKeys = 100

// CreateKey makes a key of an account, which may be given by its name. Secret is in the answer only. The key can do no
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
	err := a.s.Write(ctx, func(tx *Tx) error {
		account, err := getAccount(ctx, tx, cmp.Or(k.Account, DefaultAccount))
		if err != nil {
			return err
		}
		k.Account, k.CreatedAt = account.ID, TimeOf(Millis(tx.now))
		if err := checkKeyCount(ctx, tx, c, k.Account); err != nil {
			return err
		}
		err = tx.Change("INSERT INTO api_key (id, account, name, hash, scopes_json, created_at, expires_at) VALUES "+
			"(?, ?, ?, ?, ?, ?, ?)",
			k.ID, k.Account, k.Name, hashOf(k.Secret), ToJSON(k.Scopes), Millis(tx.now), Millis(k.ExpiresAt.Time))
		return errors.Join(err, tx.Audit(c, "key.create", k.ID,
			map[string]any{"account": k.Account, "name": k.Name, "scopes": k.Scopes}))
	})
	if err != nil {
		return Key{}, err
	}
	return k, nil
}

// checkKeyCount refuses a key if the account has as many as it may have.
func checkKeyCount(ctx context.Context, tx *Tx, c *Caller, account string) error {
	if c.Has(ScopeAdmin) {
		return nil
	}
	var n int
	err := tx.QueryRowContext(ctx,
		"SELECT COUNT(*) FROM api_key WHERE account = ? AND (revoked_at = 0 AND (expires_at = 0 OR expires_at > ?) "+
			"OR created_at > ?)",
		account, Millis(tx.now), Millis(tx.now.Add(-24*time.Hour))).Scan(&n)
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
	return Collect(ctx, a.s.db.Read(), func(row Scanner) (Key, error) { return scanKey(row) },
		"SELECT "+keyColumns+" FROM api_key WHERE account = ? OR ? = '' ORDER BY id", account, account)
}

// RevokeKey makes a key invalid that can do no more than the caller. Account, if it is given, is the only one whose
// keys may be revoked. To revoke a key again is fine.
func (a *Accounts) RevokeKey(ctx context.Context, c *Caller, account, id string) error {
	return a.s.Write(ctx, func(tx *Tx) error {
		key, err := scanKey(tx.QueryRowContext(ctx,
			"SELECT "+keyColumns+" FROM api_key WHERE id = ? AND (account = ? OR ? = '')", id, account, account))
		if errors.Is(err, sql.ErrNoRows) {
			return notFound("key", id)
		}
		if err != nil {
			return err
		}
		if !c.MayRevoke(&key) {
			return &Error{Code: ErrForbidden, Detail: "the key has more scopes than the one that is to revoke it: " +
				Join(key.Scopes, ", ")}
		}
		return errors.Join(tx.Change("UPDATE api_key SET revoked_at = ? WHERE id = ? AND revoked_at = 0",
			Millis(tx.now), id), tx.Audit(c, "key.revoke", id, nil))
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
	caller, hash, err := a.caller(ctx, id)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(hash), []byte(hashOf(secret))) != 1 {
		return nil, errBadKey
	}
	return caller, a.touch(ctx, caller)
}

// touch records that a key was used.
func (a *Accounts) touch(ctx context.Context, c *Caller) error {
	if time.Since(c.lastUsed) < touchEvery {
		return nil
	}
	return a.s.Write(ctx, func(tx *Tx) error {
		return tx.Change("UPDATE api_key SET last_used_at = ? WHERE id = ?", Millis(tx.now), c.Key)
	})
}

// callerOf finds the caller with the id of a key, as a session stores it. The error is an *Error if the key is not
// valid any more.
func (a *Accounts) callerOf(ctx context.Context, key string) (*Caller, error) {
	caller, _, err := a.caller(ctx, key)
	if err != nil {
		return nil, err
	}
	return caller, a.touch(ctx, caller)
}

func (a *Accounts) caller(ctx context.Context, id string) (c *Caller, hash string, err error) {
	var d accountDest
	key, err := scanKey(a.s.db.Read().QueryRowContext(ctx, "SELECT "+keyColumns+", api_key.hash, "+accountColumns+
		" FROM api_key JOIN account ON account.id = api_key.account WHERE api_key.id = ?", id),
		append([]any{&hash}, d.dest()...)...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, "", errBadKey
	}
	if err != nil {
		return nil, "", err
	}
	if key.State() != KeyValid {
		return nil, "", errBadKey
	}
	account, err := d.take()
	if err != nil {
		return nil, "", err
	}
	c = &Caller{Account: account, Key: key.ID, Scopes: key.Scopes, lastUsed: key.LastUsedAt.Time}
	if hash != "" { // the key of a login link ends with its session, and a person makes keys that last
		c.expires = key.ExpiresAt
	}
	return c, hash, nil
}
