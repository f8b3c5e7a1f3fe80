package service

import "testing"

// Who has logged in once needs no login link, also when the audit log does not say so any more.
func TestNeedsLogin(t *testing.T) {
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
