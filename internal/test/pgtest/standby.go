package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Standby makes a server that follows this one under a name, and starts it. It connects
// through a proxy, if that is not nil: a test that ends the proxy's connections makes a
// standby that lags. Standbys are made before Synchronous is called, so that they do not
// wait for one themselves when they are promoted.
func (s *Server) Standby(name string, through *Proxy) (*Server, error) {
	b, err := newServer(s.programs, s.settings)
	if err != nil {
		return nil, err
	}
	from := fmt.Sprintf("host=%s port=5432 user=postgres application_name=%s", s.dir, name)
	if through != nil {
		from = fmt.Sprintf("host=127.0.0.1 port=%d user=postgres sslmode=disable application_name=%s", through.Port(),
			name)
	}
	err = b.own(b.dir)
	if err == nil {
		err = b.run("pg_basebackup", "--pgdata="+b.data(), "--dbname="+from, "--checkpoint=fast", "--wal-method=stream",
			"--write-recovery-conf")
	}
	if err == nil {
		err = b.Run()
	}
	if err != nil {
		return nil, errors.Join(err, b.Remove())
	}
	return b, nil
}

// Synchronous makes commits wait until the standby of a name has them on disk, and returns
// when that is so. An empty name ends it.
func (s *Server) Synchronous(name string) error {
	f, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "synchronous_standby_names = '%s'\n", name)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := s.run("pg_ctl", "reload", "--pgdata="+s.data()); err != nil {
		return err
	}
	want := "1"
	if name == "" {
		want = "0"
	}
	deadline := time.Now().Add(time.Minute)
	for {
		got, err := s.ask(`SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'`)
		if err != nil || got == want {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s standbys are synchronous after a minute", got)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Promote makes a standby a server of its own and returns when it accepts writes.
func (s *Server) Promote() error {
	return s.run("pg_ctl", "promote", "--wait", "--timeout=120", "--pgdata="+s.data())
}

// ask returns the answer to a query that has one.
func (s *Server) ask(sql string) (string, error) {
	full := s.command("psql", "--no-psqlrc", "--tuples-only", "--no-align", "--host="+s.dir, "--username=postgres",
		"--command="+sql)
	cmd := exec.Command(full[0], full[1:]...)
	cmd.Dir = s.dir
	out, err := cmd.CombinedOutput()
	out = bytes.TrimSpace(out)
	if err != nil {
		return "", fmt.Errorf("psql: %w: %s", err, out)
	}
	return string(out), nil
}
