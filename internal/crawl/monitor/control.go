package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/mapwright/mapwright/internal/datadir"
)

// The control socket takes one request and one answer per connection, each a line of JSON.

// Request is what a client asks of a running crawl.
type Request struct {
	Command string          `json:"command"`          // status or export
	Export  json.RawMessage `json:"export,omitempty"` // options of an export
	Types   []string        `json:"types,omitempty"`  // content types that XML sitemaps may list, for an export
}

// Answer is what the crawl says.
type Answer struct {
	Error  string          `json:"error,omitempty"`
	Live   *Live           `json:"status,omitempty"`
	Export json.RawMessage `json:"export,omitempty"` // what an export wrote
}

// ErrNotRunning means that no crawl listens.
var ErrNotRunning = errors.New("no running crawl answers")

// Controlled is a crawl that answers.
type Controlled interface {
	Status() *Live
	// Export writes the pages that are recorded so far. Types are the content types that XML sitemaps may list.
	Export(ctx context.Context, options json.RawMessage, types []string) (json.RawMessage, error)
}

// Server answers on the socket of a running crawl.
type Server struct {
	crawl    Controlled
	log      *slog.Logger
	listener net.Listener
	slots    chan struct{} // one element for each client that is being answered
	cancel   context.CancelFunc
	ctx      context.Context
	clients  sync.WaitGroup
}

// Listen opens the socket. One that an ended process left is replaced: the store's lock has shown that no other process
// uses the directory.
func Listen(path string, c Controlled, log *slog.Logger) (*Server, error) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != os.ModeSocket:
		return nil, fmt.Errorf("%s is not a socket: move it", path)
	default: // a process that was killed left it
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	listener, err := listenUnix(path)
	if err != nil {
		return nil, err
	}
	// Other users must not be able to connect: an export writes files with this user's rights.
	if err := os.Chmod(path, 0o600); err != nil && runtime.GOOS != "windows" {
		return nil, errors.Join(err, listener.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Server{crawl: c, log: log, listener: listener, slots: make(chan struct{}, controlClients), ctx: ctx,
		cancel: cancel}, nil
}

// Serve answers until close.
func (c *Server) Serve() {
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			break
		}
		select {
		case c.slots <- struct{}{}:
			c.clients.Go(func() {
				defer func() { <-c.slots }()
				c.answer(conn)
			})
		default:
			_ = conn.Close() // too many at once
		}
	}
	c.clients.Wait()
}

func (c *Server) Close() {
	c.cancel()
	_ = c.listener.Close() // removes the socket too
}

// Bounds on the clients of a control socket.
const (
	controlTimeout = 5 * time.Second // how long a client may take to ask
	controlRequest = 256 << 10       // bytes of a request
	controlClients = 32              // clients at once
)

func (c *Server) answer(conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(c.ctx, func() { conn.Close() })
	defer stop()
	_ = conn.SetReadDeadline(time.Now().Add(controlTimeout))
	var req Request
	if err := json.NewDecoder(io.LimitReader(conn, controlRequest)).Decode(&req); err != nil {
		return
	}
	a := c.do(&req)
	if err := json.NewEncoder(conn).Encode(a); err != nil {
		c.log.Debug("a client of the control socket went away", "error", err)
	}
}

func (c *Server) do(req *Request) *Answer {
	switch req.Command {
	case "status":
		return &Answer{Live: c.crawl.Status()}
	case "export":
		if req.Export == nil {
			return &Answer{Error: "export without options"}
		}
		res, err := c.crawl.Export(c.ctx, req.Export, req.Types)
		if err != nil {
			return &Answer{Error: err.Error()}
		}
		return &Answer{Export: res}
	}
	return &Answer{Error: fmt.Sprintf("no such command: %q", req.Command)}
}

// Ask sends a request to the crawl that runs in a data directory. ErrNotRunning means that none does.
func Ask(ctx context.Context, dir datadir.Dir, req Request) (*Answer, error) {
	conn, err := dialUnix(ctx, dir.Socket())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := json.NewEncoder(conn).Encode(req); err != nil {
		return nil, fmt.Errorf("ask the running crawl: %w", err)
	}
	var a Answer
	if err := json.NewDecoder(conn).Decode(&a); err != nil {
		return nil, fmt.Errorf("the running crawl ended before it answered: %w", err)
	}
	if a.Error != "" {
		return nil, fmt.Errorf("the running crawl says: %s", a.Error)
	}
	return &a, nil
}

// maxSocketPath is the longest name that a Unix socket may have on any system that this runs on.
const maxSocketPath = 100

// shortSocket gives a socket in a deep directory a name short enough to use: through a link in a temporary directory.
// TMPDIR may name a deep directory too, so /tmp is tried next.
func shortSocket(path string) (short string, done func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	abs, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	for _, parent := range []string{os.TempDir(), "/tmp"} {
		tmp, made := os.MkdirTemp(parent, "mapwright-")
		if made != nil {
			err = errors.Join(err, made)
			continue
		}
		done = func() { _ = os.RemoveAll(tmp) }
		short = filepath.Join(tmp, "d", filepath.Base(path))
		if len(short) > maxSocketPath {
			err = errors.Join(err, fmt.Errorf("%s is too long for the name of a socket", short))
		} else if linked := os.Symlink(abs, filepath.Dir(short)); linked != nil {
			err = errors.Join(err, linked)
		} else {
			return short, done, nil
		}
		done()
	}
	return "", nil, err
}

func listenUnix(path string) (net.Listener, error) {
	short, done, err := shortSocket(path)
	if err != nil {
		return nil, err
	}
	defer done()
	l, err := net.Listen("unix", short)
	if err != nil {
		return nil, err
	}
	if short != path {
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		return &unlinking{l, path}, nil
	}
	return l, nil
}

// unlinking removes a socket by its true name, since the short one is gone by then.
type unlinking struct {
	net.Listener
	path string
}

func (u *unlinking) Close() error { return errors.Join(u.Listener.Close(), os.Remove(u.path)) }

func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	short, done, err := shortSocket(path)
	if err != nil {
		return nil, err
	}
	defer done()
	return (&net.Dialer{}).DialContext(ctx, "unix", short)
}
