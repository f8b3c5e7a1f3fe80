// Package pgtest runs a private PostgreSQL server for tests. Start makes and starts it in
// a directory of its own, reachable by a Unix socket only, with fsync on; Remove stops
// it and deletes everything, which also happens if the process ends without that. A
// server cannot run as root: then user postgres runs it. Standby makes a server that follows
// another, and a Proxy stands for a network that fails.
package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Server is one that this process has made. It is removed when nothing refers to it any more.
type Server struct {
	dir      string // data and socket
	programs string // directory of PostgreSQL's programs
	settings []string
	remover  *exec.Cmd
	alive    io.Closer // standard input of remover
}

// removal waits until its input is closed, by Remove or by the end of this process.
// Then it stops the server, if it runs, and deletes its directory.
const removal = `trap '' INT TERM HUP; dir=$1; shift; cat >/dev/null; [ ! -e "$dir/data/postmaster.pid" ] || "$@"; cd / && rm -rf "$dir"`

// errMissing means that PostgreSQL is not installed.
var errMissing = errors.New("PostgreSQL is not installed: run scripts/need-postgres.sh --install, or apt-get install " +
	"postgresql")

// Start makes a server and starts it. Settings are such as "max_connections=20".
func Start(settings ...string) (*Server, error) {
	programs, err := findPrograms()
	if err != nil {
		return nil, err
	}
	s, err := newServer(programs, settings)
	if err != nil {
		return nil, err
	}
	if err := s.init(); err != nil {
		return nil, errors.Join(err, s.Remove())
	}
	if err := s.Run(); err != nil {
		return nil, errors.Join(err, s.Remove())
	}
	return s, nil
}

// newServer makes the directory of a server.
func newServer(programs string, settings []string) (*Server, error) {
	dir, err := os.MkdirTemp("", "pgtest")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, programs: programs, settings: settings}
	if err := s.startRemover(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// findPrograms returns the directory of the newest version that Debian's packages have
// installed, or that of the pg_ctl in PATH.
func findPrograms() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_ctl")
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	if n := len(found); n > 0 {
		return filepath.Dir(found[n-1]), nil
	}
	path, err := exec.LookPath("pg_ctl")
	if err != nil {
		return "", errMissing
	}
	return filepath.Dir(path), nil
}

// version is the number in the path of a program.
func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

func (s *Server) startRemover() error {
	s.remover = exec.Command("sh", append([]string{"-c", removal, "sh", s.dir},
		s.command(stopping(s.data(), "immediate")...)...)...)
	stdin, err := s.remover.StdinPipe()
	if err != nil {
		return err
	}
	s.alive = stdin
	return s.remover.Start()
}

func (s *Server) init() error {
	if err := s.own(s.dir); err != nil {
		return err
	}
	return s.run("initdb", "--pgdata="+s.data(), "--auth=trust", "--username=postgres", "--encoding=UTF8",
		"--no-locale", "--no-instructions")
}

// own gives a directory to the user who runs the server.
func (s *Server) own(dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return fmt.Errorf("a server cannot run as root: %w", err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return os.Chown(dir, uid, gid)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Socket is the path of the server's socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, ".s.PGSQL.5432") }

// URL is the address of a database of the server, for a user with all rights.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@/%s?host=%s&port=5432", database, url.QueryEscape(s.dir))
}

// Run starts the server after Stop or Crash and waits until it answers.
func (s *Server) Run() error {
	options := []string{"-c listen_addresses=", "-c unix_socket_directories=" + s.dir, "-c fsync=on",
		"-c synchronous_commit=on"}
	for _, setting := range s.settings {
		options = append(options, "-c "+setting)
	}
	err := s.run("pg_ctl", "start", "--wait", "--timeout=120", "--pgdata="+s.data(),
		"--log="+filepath.Join(s.dir, "log"), "--options="+strings.Join(options, " "))
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		return fmt.Errorf("%w\n%s", err, log)
	}
	return nil
}

// Stop ends the server after it has ended all connections.
func (s *Server) Stop() error { return s.stop("fast") }

// Crash ends the server at once; it recovers when it is started again.
func (s *Server) Crash() error { return s.stop("immediate") }

func (s *Server) stop(mode string) error { return s.run(stopping(s.data(), mode)...) }

// stopping is the command that stops a server.
func stopping(data, mode string) []string {
	return []string{"pg_ctl", "stop", "--wait", "--timeout=120", "--pgdata=" + data, "--mode=" + mode}
}

// Remove stops the server, if it runs, and deletes its directory.
func (s *Server) Remove() error {
	return errors.Join(s.alive.Close(), s.remover.Wait())
}

// command is how one of PostgreSQL's programs is called.
func (s *Server) command(args ...string) []string {
	args = append([]string{filepath.Join(s.programs, args[0])}, args[1:]...)
	if os.Getuid() == 0 {
		args = append([]string{"runuser", "-u", "postgres", "--"}, args...)
	}
	return args
}

// Dump returns statements that make the tables of a database in another one, and fill them.
func (s *Server) Dump(database string) (string, error) {
	args := s.command("pg_dump", "--inserts", "--no-owner", "--dbname="+s.URL(database))
	out, err := exec.Command(args[0], args[1:]...).Output()
	if err != nil {
		return "", fmt.Errorf("pg_dump: %w", err)
	}
	// Lines of psql's own, which pg_dump writes, are no statements.
	return regexp.MustCompile(`(?m)^\\.*\n`).ReplaceAllString(string(out), ""), nil
}

// run runs one of PostgreSQL's programs. Its output goes to a file: a server that it
// starts would keep a pipe open.
func (s *Server) run(args ...string) error {
	out, err := os.CreateTemp("", "pgtest-output")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	full := s.command(args...)
	cmd := exec.Command(full[0], full[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, out, out
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(out.Name())
		return fmt.Errorf("%s: %w: %s", args[0], err, bytes.TrimSpace(text))
	}
	return nil
}
