package service

import (
	"errors"
	"fmt"
	"testing"
)

// Who has logged in once needs no login link, also when the audit log does not say so any more.
func TestNeedsLogin(t *testing.T) {
	t.Parallel()
	for name, byKey := range map[string]bool{"login link": false, "key": true} {
		t.Run(name, func(t *testing.T) {
			ts := openService(t, Options{RecordsOnly: true})
			sessions := ts.Accounts
			want := func(want bool) {
				t.Helper()
				if got, err := sessions.NeedsLogin(t.Context()); err != nil || got != want {
					t.Errorf("a login is needed: %v, %v; want %v", got, err, want)
				}
			}
			want(true)
			token, err := sessions.NewLogin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want(true)
			key, err := ts.Accounts.CreateKey(t.Context(), ts.admin, Key{})
			if err != nil {
				t.Fatal(err)
			}
			want(true)
			if byKey {
				token = ""
			}
			secret, err := sessions.BeginSession(t.Context(), token, key.Secret, "")
			if err != nil {
				t.Fatal(err)
			}
			want(false)
			if err := ts.Write(t.Context(), func(tx *Tx) error { return tx.Change("DELETE FROM audit") }); err != nil {
				t.Fatal(err)
			}
			want(false)
			if !byKey {
				if err := sessions.EndSession(t.Context(), secret); err != nil {
					t.Fatal(err)
				}
				want(false)
			}
		})
	}
}

// A key has a bounded number of sessions: another one ends the oldest of the same key.
func TestSessionsOfAKey(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{RecordsOnly: true})
	begin := func(key Key) string {
		t.Helper()
		secret, err := ts.Accounts.BeginSession(t.Context(), "", key.Secret, "")
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	var keys []Key
	for range 2 {
		key, err := ts.Accounts.CreateKey(t.Context(), ts.admin, Key{})
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	secrets := map[string]string{"other": begin(keys[1]), "first": begin(keys[0])}
	err := ts.Write(t.Context(), func(tx *Tx) error {
		err := tx.Change("UPDATE session SET created_at = created_at - 1000")
		for i := range maxSessions - 1 {
			err = errors.Join(err, tx.Insert("session", "hash, api_key, csrf, created_at, expires_at", fmt.Sprint(i),
				keys[0].ID, "", tx.now, tx.now.Add(SessionTime)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	secrets["last"] = begin(keys[0])
	for name, secret := range secrets {
		if _, err := ts.Accounts.Session(t.Context(), secret); (err == nil) != (name != "first") {
			t.Errorf("the %s session: %v", name, err)
		}
	}
}
