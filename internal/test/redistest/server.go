// Package redistest runs a private Redis server for tests. Start makes and starts it in a
// directory of its own, on a loopback address, with an append-only file; Remove stops it and
// deletes everything, which also happens if the process ends without that. Replica makes a
// server that follows another, Sentinels watch it, StartCluster makes a Redis Cluster, and a
// Proxy stands for a network that fails.
package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	driver "github.com/gomodule/redigo/redis"

	"github.com/mapwright/mapwright/internal/test/netproxy"
)

// A Server is one that this process has made. It is removed when nothing refers to it any more.
type Server struct {
	dir      string
	program  string
	port     int
	settings []string
	sentinel bool
	bus      int       // the port for other nodes, if the server is a node of a Redis Cluster; otherwise 0
	process  *exec.Cmd // nil if it does not run
	remover  *exec.Cmd
	alive    io.Closer // standard input of remover
}

// removal waits until its input is closed, by Remove or by the end of this process. Then it
// kills the server, if it runs, and deletes its directory.
const removal = `trap '' INT TERM HUP; cat >/dev/null; [ ! -s "$1/pid" ] || kill -9 "$(cat "$1/pid")" 2>/dev/null; ` +
	`cd / && rm -rf "$1"`

// errMissing means that Redis is not installed.
var errMissing = errors.New("no Redis server is installed: run scripts/need-redis.sh --install, or apt-get install " +
	"redis-server")

// Start makes a server and starts it. Settings are such as "--maxmemory 10mb", one word each. Later ones replace the
// defaults: an append-only file that is written to the disk once a second.
func Start(settings ...string) (*Server, error) { return start(&Server{settings: settings}) }

func start(s *Server) (*Server, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		if program, err = exec.LookPath("valkey-server"); err != nil {
			return nil, errMissing
		}
	}
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		return nil, err
	}
	s.dir, s.program = dir, program
	s.remover = exec.Command("sh", "-c", removal, "sh", dir)
	stdin, err := s.remover.StdinPipe()
	if err == nil {
		s.alive = stdin
		err = s.remover.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.Run(); err != nil {
		return nil, errors.Join(err, s.Remove())
	}
	return s, nil
}

// startTries is how often a server is started. A port that is free may be taken when the server wants it.
const startTries = 5

// Run starts the server after Stop or Crash and waits until it answers.
func (s *Server) Run() (err error) {
	for range startTries {
		port := s.port
		if port == 0 {
			if port, err = freePort(); err != nil {
				return err
			}
			if s.bus != 0 {
				if s.bus, err = freePort(); err != nil {
					return err
				}
			}
		}
		if err = s.start(port); err == nil {
			s.port = port
			return nil
		}
	}
	return err
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (s *Server) start(port int) error {
	args := append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", s.dir, "--daemonize", "no",
		"--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--repl-diskless-sync-delay", "0",
		"--pidfile", filepath.Join(s.dir, "pid")},
		s.settings...)
	if s.bus != 0 {
		args = append(args, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(s.bus))
	}
	if s.sentinel {
		config := filepath.Join(s.dir, "sentinel.conf")
		text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\n", port, s.dir)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return err
		}
		args = []string{config, "--sentinel"}
	}
	// Output goes to a file: a pipe would need a goroutine as long as the server runs.
	out, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(s.program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, out, out
	if err := cmd.Start(); err != nil {
		return err
	}
	s.process = cmd
	// The file is written here, because the server writes it later.
	if err := os.WriteFile(filepath.Join(s.dir, "pid"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		return err
	}
	deadline := time.Now().Add(2 * time.Minute)
	for {
		_, err := s.do(port, "PING")
		if answer, ok := errors.AsType[driver.Error](err); err == nil || ok && strings.HasPrefix(string(answer), "NOAUTH") {
			return nil
		}
		log, _ := os.ReadFile(out.Name())
		ended := bytes.Contains(log, []byte("Failed listening")) || bytes.Contains(log, []byte("FATAL"))
		if ended || time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("the server does not answer: %w: %s", err, log), s.Crash())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// CPU is the processor time that the server has used, with its helpers that have ended.
func (s *Server) CPU() (time.Duration, error) {
	info, err := driver.String(s.Do("INFO", "cpu"))
	if err != nil {
		return 0, err
	}
	var all float64
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "used_cpu_sys", "used_cpu_user", "used_cpu_sys_children", "used_cpu_user_children":
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			all += seconds
		}
	}
	return time.Duration(all * float64(time.Second)), nil
}

// Stop ends the server in good order.
func (s *Server) Stop() error { return s.end(syscall.SIGTERM) }

// Crash kills the server.
func (s *Server) Crash() error { return s.end(syscall.SIGKILL) }

func (s *Server) end(signal syscall.Signal) error {
	if s.process == nil {
		return errors.New("the server does not run")
	}
	process := s.process
	s.process = nil
	if err := process.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_ = process.Wait() // it says that the process was killed
	return os.RemoveAll(filepath.Join(s.dir, "pid"))
}

// Signal sends a signal to the server, such as one that stops it for a while.
func (s *Server) Signal(signal syscall.Signal) error { return s.process.Process.Signal(signal) }

// Remove kills the server, if it runs, and deletes its directory.
func (s *Server) Remove() error { return errors.Join(s.alive.Close(), s.remover.Wait()) }

// Port is the one that the server listens on.
func (s *Server) Port() int { return s.port }

// Addr is the address of the server.
func (s *Server) Addr() string { return fmt.Sprint("127.0.0.1:", s.port) }

// URL is the address of a database of the server.
func (s *Server) URL(database int) string { return fmt.Sprintf("redis://%s/%d", s.Addr(), database) }

// Do sends a command to the server.
func (s *Server) Do(command string, args ...any) (any, error) { return s.do(s.port, command, args...) }

func (s *Server) do(port int, command string, args ...any) (any, error) {
	conn, err := driver.Dial("tcp", fmt.Sprint("127.0.0.1:", port), driver.DialConnectTimeout(time.Minute))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.Do(command, args...)
}

// Replica makes a server that follows this one, and returns when it has caught up. It connects through a proxy, if that
// is not nil.
func (s *Server) Replica(through *Proxy) (*Server, error) {
	r, err := Start(s.settings...)
	if err != nil {
		return nil, err
	}
	port := s.port
	if through != nil {
		port = through.Addr().Port
	}
	if err := r.Follow(port); err != nil {
		return nil, errors.Join(err, r.Remove())
	}
	return r, nil
}

// Follow makes this server a replica of the one at a port, and returns when it has caught up.
func (s *Server) Follow(port int) error {
	if _, err := s.Do("REPLICAOF", "127.0.0.1", port); err != nil {
		return err
	}
	return Await("the replica is connected", s.Follows)
}

// Follows reports whether this server is a replica that has caught up.
func (s *Server) Follows() (bool, error) {
	role, err := driver.Values(s.Do("ROLE"))
	if err != nil || len(role) < 4 {
		return false, err
	}
	state, err := driver.String(role[3], nil)
	return state == "connected", err
}

// IsMaster reports whether this server accepts writes. One that does not run does not.
func (s *Server) IsMaster() bool {
	role, err := driver.Values(s.Do("ROLE"))
	if err != nil || len(role) == 0 {
		return false
	}
	name, _ := driver.String(role[0], nil)
	return name == "master"
}

// FallBehind keeps a replica from getting anything more from its master. The master does not know the password that the
// replica has for it from now on.
func (s *Server) FallBehind() error {
	if _, err := s.Do("CONFIG", "SET", "masterauth", "wrong"); err != nil {
		return err
	}
	_, err := s.Do("CLIENT", "KILL", "TYPE", "master")
	return err
}

// Await waits until something is so.
func Await(what string, so func() (bool, error)) error {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		done, err := so()
		if done {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("after two minutes it is not so that %s", what), err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Promote makes a replica a server of its own.
func (s *Server) Promote() error {
	_, err := s.Do("REPLICAOF", "NO", "ONE")
	return err
}

// A Proxy stands between clients and a server.
type Proxy struct{ *netproxy.Proxy }

// NewProxy listens on a loopback address for a server. Close ends it.
func NewProxy(s *Server) (*Proxy, error) {
	p, err := netproxy.New(s.target(), func(sent []byte) bool {
		head := sent[:min(len(sent), 300)]
		return bytes.Contains(head, []byte("EVALSHA\r\n")) && bytes.Contains(head, []byte("\r\n$6\r\ncommit\r\n"))
	})
	if err != nil {
		return nil, err
	}
	return &Proxy{p}, nil
}

func (s *Server) target() netproxy.Target { return netproxy.Target{Network: "tcp", Address: s.Addr()} }

// URL is the address of a database through the proxy.
func (p *Proxy) URL(database int) string { return fmt.Sprintf("redis://%s/%d", p.Addr(), database) }

// SetServer passes later connections on to another server, and ends the present ones.
func (p *Proxy) SetServer(s *Server) { p.SetTarget(s.target()) }
