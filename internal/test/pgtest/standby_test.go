//go:build cluster

package pgtest

import "testing"

// TestStandbys promotes a synchronous standby, which has all that was acknowledged, and one
// that was cut off, which has not.
func TestStandbys(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	remove := func(s *Server) {
		t.Cleanup(func() {
			if err := s.Remove(); err != nil {
				t.Error(err)
			}
		})
	}
	ask := func(s *Server, sql, want string) {
		t.Helper()
		if got, err := s.ask(sql); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", sql, got, err, want)
		}
	}
	primary, err := Start()
	must(err)
	remove(primary)
	p, err := NewProxy(primary)
	must(err)
	t.Cleanup(func() { _ = p.Close() })
	same, err := primary.Standby("same", nil)
	must(err)
	remove(same)
	behind, err := primary.Standby("behind", p)
	must(err)
	remove(behind)

	must(primary.Synchronous("behind"))
	ask(primary, `CREATE TABLE t AS SELECT 1 AS n`, "SELECT 1")
	must(primary.Synchronous("same"))
	p.SetAway(true)
	ask(primary, `INSERT INTO t VALUES (2)`, "INSERT 0 1")
	must(primary.Crash())
	must(same.Promote())
	ask(same, `SELECT count(*) FROM t`, "2")
	ask(same, `INSERT INTO t VALUES (3)`, "INSERT 0 1")
	must(behind.Promote())
	ask(behind, `SELECT count(*) FROM t`, "1")
	ask(behind, `INSERT INTO t VALUES (4)`, "INSERT 0 1")
}
