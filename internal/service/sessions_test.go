package service

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// beginSession begins a session of the caller with a key or with the token of a login link.
func (ts *testService) beginSession(find func(context.Context, string) (*Caller, error), text string) (secret string) {
	ts.t.Helper()
	caller, err := find(ts.t.Context(), text)
	if err == nil {
		secret, err = ts.Accounts.BeginSession(ts.t.Context(), caller)
	}
	if err != nil {
		ts.t.Fatal(err)
	}
	return secret
}

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
			find, text := sessions.Login, token
			if byKey {
				find, text = sessions.Authenticate, key.Secret
			}
			secret := ts.beginSession(find, text)
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

// Login links, and keys without an account, are of the account that exists from the start, though it was renamed and
// another one has its name.
func TestFirstAccountIsRenamed(t *testing.T) {
	t.Parallel()
	for _, renameFirst := range []bool{true, false} {
		ts := openService(t, Options{RecordsOnly: true})
		rename := func() {
			t.Helper()
			if err := ts.editAccount(DefaultAccount, AccountEdit{Name: new("ops")}); err != nil {
				t.Fatal(err)
			}
			if _, err := ts.Accounts.Create(t.Context(), ts.admin, Account{Name: DefaultAccount}); err != nil {
				t.Fatal(err)
			}
		}
		if renameFirst {
			rename()
		}
		token, err := ts.Accounts.NewLogin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !renameFirst {
			rename()
		}
		session, err := ts.Accounts.Session(t.Context(), ts.beginSession(ts.Accounts.Login, token))
		if err != nil || session.Caller.Account.ID != ts.admin.Account.ID {
			t.Errorf("the session is of %+v, %v", session, err)
		}
		key, err := ts.Accounts.CreateKey(t.Context(), ts.admin, Key{})
		if err != nil || key.Account != ts.admin.Account.ID {
			t.Errorf("the key is of account %s, %v", key.Account, err)
		}
	}
}

// A name does not stand for an account with this id: no account gets such a name, and if one has it from before, the id
// counts.
func TestNamesThatAreIDs(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{RecordsOnly: true})
	id := ts.admin.Account.ID
	if _, err := ts.Accounts.Create(t.Context(), ts.admin, Account{Name: id}); err == nil {
		t.Error("an account has the id of another one as its name")
	}
	other, err := ts.Accounts.Create(t.Context(), ts.admin, Account{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if err := ts.editAccount("other", AccountEdit{Name: &id}); err == nil {
		t.Error("an account gets the id of another one as its name")
	}
	for _, named := range []string{other.ID, id} {
		for of, name := range map[string]string{other.ID: id, id: other.ID} {
			if err := ts.Write(t.Context(), func(tx *Tx) error {
				return tx.Change("UPDATE account SET name = ? WHERE id = ?", name, of)
			}); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := ts.Accounts.Get(t.Context(), named); err != nil || got.ID != named {
			t.Errorf("%s is taken for %s, %v", named, got.ID, err)
		}
	}
}

// A key has a bounded number of sessions: another one ends the oldest of the same key.
func TestSessionsOfAKey(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{RecordsOnly: true})
	begin := func(key Key) string {
		t.Helper()
		return ts.beginSession(ts.Accounts.Authenticate, key.Secret)
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
