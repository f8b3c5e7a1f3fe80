package redis

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	driver "github.com/gomodule/redigo/redis"

	"github.com/mapwright/mapwright/internal/cluster"
)

const (
	connectTimeout = 5 * time.Second
	// answerTimeout is for one answer.
	answerTimeout = 10 * time.Second
	// replicaTimeout is how long a write waits for replicas, before it is sent again.
	replicaTimeout = 2 * time.Second
	// askTimeout is for one of several sentinels or nodes, which may be on a machine that is gone.
	askTimeout = 2 * time.Second
	// connections is how many a machine has at most to a server: for a commit, a beat, and logs that are read.
	connections = 4
)

// A client sends commands to a server, or to the node of a Redis Cluster that has a key. It repeats nothing but what a
// node has refused because another has the key: the callers of the engine do.
type client struct {
	address *address
	nodes   nodes // of a Redis Cluster

	mu     sync.Mutex
	pools  map[string]*driver.Pool // guarded by mu; by node
	closed bool                    // guarded by mu
	stale  time.Time               // guarded by mu; connections that were used last before this are not used again
}

// theServer is in the place of a node if there is no Redis Cluster.
const theServer = ""

func newClient(a *address) *client {
	return &client{address: a, nodes: newNodes(a.hosts), pools: map[string]*driver.Pool{}}
}

// pool returns the connections to a node.
func (c *client) pool(node string) *driver.Pool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pools[node]; p != nil {
		return p
	}
	p := &driver.Pool{
		MaxIdle: connections, MaxActive: connections, Wait: true,
		DialContext: func(ctx context.Context) (driver.Conn, error) { return c.dial(ctx, node) },
		TestOnBorrow: func(_ driver.Conn, used time.Time) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			if used.Before(c.stale) {
				return errors.New("the connection is to a server that does not serve any more")
			}
			return nil
		},
	}
	if c.closed {
		_ = p.Close()
	}
	c.pools[node] = p
	return p
}

func (c *client) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	var faults []error
	for _, p := range c.pools {
		faults = append(faults, p.Close())
	}
	return errors.Join(faults...)
}

// renew lets later calls make new connections. It is called when a server says that it does not serve, such as one that
// has become a replica, or when its replicas do not answer: one of them may have taken its place, and the server does
// not know it.
func (c *client) renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stale = time.Now()
}

// A dialError means that there was no connection, so nothing was sent.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

// dial makes a connection to a node, or to the server, which sentinels may have to name.
func (c *client) dial(ctx context.Context, node string) (driver.Conn, error) {
	if node != theServer {
		return c.login(ctx, node)
	}
	if c.address.master == "" {
		return c.login(ctx, c.address.hosts[0])
	}
	host, err := c.findMaster(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := c.login(ctx, host)
	if err != nil {
		return nil, err
	}
	// A server that was replaced may not know it yet, or the sentinels may not.
	info, err := parseInfo(conn.(driver.ConnWithContext).DoContext(ctx, "INFO", "replication"))
	if err == nil && info["role"] != "master" {
		err = fmt.Errorf("%s is a replica", host)
	}
	if err != nil {
		_ = conn.Close()
		return nil, dialError{err}
	}
	return conn, nil
}

// login connects to a server with the user and the database of the address.
func (c *client) login(ctx context.Context, host string) (driver.Conn, error) {
	return c.dialHost(ctx, host, driver.DialUsername(c.address.user), driver.DialPassword(c.address.password),
		driver.DialDatabase(c.address.database))
}

func (c *client) dialHost(ctx context.Context, host string, options ...driver.DialOption) (driver.Conn, error) {
	name, _, _ := net.SplitHostPort(host)
	if err := c.address.checkClear(name); err != nil { // sentinels and nodes name hosts that are not in the address
		return nil, dialError{err}
	}
	options = append(options, driver.DialContextFunc(dialer), driver.DialReadTimeout(answerTimeout),
		driver.DialWriteTimeout(answerTimeout), driver.DialTLSHandshakeTimeout(connectTimeout))
	if c.address.tls != nil {
		options = append(options, driver.DialUseTLS(true), driver.DialTLSConfig(c.address.tls))
	}
	conn, err := driver.DialContext(ctx, "tcp", host, options...)
	if err != nil {
		return nil, dialError{err}
	}
	return conn, nil
}

// findMaster asks the sentinels in turn where the server is.
func (c *client) findMaster(ctx context.Context) (string, error) {
	var faults []error
	for _, sentinel := range c.address.hosts {
		host, err := c.askSentinel(ctx, sentinel)
		if err == nil {
			return host, nil
		}
		faults = append(faults, fmt.Errorf("sentinel %s: %w", sentinel, err))
	}
	return "", dialError{errors.Join(faults...)}
}

func (c *client) askSentinel(ctx context.Context, sentinel string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := c.dialHost(ctx, sentinel)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	found, err := driver.Strings(conn.(driver.ConnWithContext).DoContext(ctx, "SENTINEL", "get-master-addr-by-name",
		c.address.master))
	switch {
	case errors.Is(err, driver.ErrNil):
		return "", fmt.Errorf("it knows no server %q", c.address.master)
	case err != nil:
		return "", err
	case len(found) != 2:
		return "", fmt.Errorf("it answers %q", found)
	}
	return net.JoinHostPort(found[0], found[1]), nil
}

func dialer(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: connectTimeout, KeepAlive: cluster.Lease / 2}
	return d.DialContext(ctx, network, address)
}

// do sends one command to the server, or to the node that has a key.
func (c *client) do(ctx context.Context, key, command string, args ...any) (any, error) {
	return c.with(ctx, key, func(conn driver.ConnWithContext) (any, error) {
		return conn.DoContext(ctx, command, args...)
	})
}

// write sends one command that writes, and waits as eval does.
func (c *client) write(ctx context.Context, w wait, key, command string, args ...any) (any, error) {
	return c.with(ctx, key, func(conn driver.ConnWithContext) (any, error) {
		result, err := conn.DoContext(ctx, command, args...)
		if err == nil {
			err = w.do(ctx, conn)
		}
		return result, err
	})
}

// doAt sends one command to a node.
func (c *client) doAt(ctx context.Context, node, command string, args ...any) (any, error) {
	return c.at(ctx, node, func(conn driver.ConnWithContext) (any, error) {
		return conn.DoContext(ctx, command, args...)
	})
}

// with calls fn with a connection to the server, or to the node that has a key. Fn is called again if a node answers
// that it does not have the key; it has done nothing then.
func (c *client) with(ctx context.Context, key string, fn func(driver.ConnWithContext) (any, error)) (any, error) {
	if !c.address.cluster {
		return c.at(ctx, theServer, fn)
	}
	return c.atOwner(ctx, key, fn)
}

// at calls fn with a connection to a node.
func (c *client) at(ctx context.Context, node string, fn func(driver.ConnWithContext) (any, error)) (any, error) {
	conn, err := c.pool(node).GetContext(ctx)
	if err != nil {
		if _, ok := errors.AsType[dialError](err); !ok {
			err = dialError{err} // the context has ended, or the pool is closed
		}
		return nil, err
	}
	result, err := fn(conn.(driver.ConnWithContext))
	_ = conn.Close() // back into the pool
	if _, alone := errors.AsType[waitError](err); alone || hasCode(err, movedCodes) {
		c.renew()
	}
	return result, err
}

// A script is run by the name that the server has for it.
type script struct{ text, sha string }

func newScript(text string) script {
	sum := sha1.Sum([]byte(text)) // the server names scripts so
	return script{text, hex.EncodeToString(sum[:])}
}

// eval runs a script. It returns when as many replicas have what was written as must; the server knows by the
// connection for what to wait.
func (c *client) eval(ctx context.Context, s script, w wait, key string, args []any) (any, error) {
	all := append([]any{s.sha, 1, key}, args...)
	return c.with(ctx, key, func(conn driver.ConnWithContext) (any, error) {
		result, err := conn.DoContext(ctx, "EVALSHA", all...)
		if hasCode(err, []string{"NOSCRIPT"}) {
			if _, err := conn.DoContext(ctx, "SCRIPT", "LOAD", s.text); err != nil {
				return nil, dialError{err} // the script was not run
			}
			result, err = conn.DoContext(ctx, "EVALSHA", all...)
		}
		if err == nil {
			err = w.do(ctx, conn)
		}
		if err != nil {
			return nil, err
		}
		return result, nil
	})
}

// A wait is what must have happened to a write before it is acknowledged.
type wait struct {
	replicas int  // so many must have it
	disk     bool // on their disks, rather than in their memory
}

// do waits for the last write of a connection.
func (w wait) do(ctx context.Context, conn driver.ConnWithContext) error {
	if w.replicas == 0 {
		return nil
	}
	var n int
	var err error
	where := ""
	if w.disk {
		var both []int // the server's own disk comes first
		both, err = driver.Ints(conn.DoContext(ctx, "WAITAOF", 1, w.replicas, replicaTimeout.Milliseconds()))
		if n = 0; len(both) == 2 && both[0] == 1 {
			n = both[1]
		}
		where = " on their disks"
	} else {
		n, err = driver.Int(conn.DoContext(ctx, "WAIT", w.replicas, replicaTimeout.Milliseconds()))
	}
	if err == nil && n < w.replicas {
		err = fmt.Errorf("%d replicas have the write%s after %v, and %d must", n, where, replicaTimeout, w.replicas)
	}
	if err != nil {
		return waitError{err}
	}
	return nil
}

// A waitError means that a write was done, and that replicas may not have it.
type waitError struct{ error }

func (e waitError) Unwrap() error { return e.error }
