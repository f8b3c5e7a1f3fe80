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
	// sentinelTimeout is for one of several sentinels, which may be on a machine that is gone.
	sentinelTimeout = 2 * time.Second
	// connections is how many a machine has at most: for a commit, a beat, and logs that are read.
	connections = 4
)

// A client sends commands to a server. It repeats nothing: the callers of the engine do.
type client struct {
	address *address
	pool    *driver.Pool

	mu    sync.Mutex
	stale time.Time // guarded by mu; connections that were used last before this are not used again
}

func newClient(a *address) *client {
	c := &client{address: a}
	c.pool = &driver.Pool{
		MaxIdle: connections, MaxActive: connections, Wait: true, DialContext: c.dial,
		TestOnBorrow: func(_ driver.Conn, used time.Time) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			if used.Before(c.stale) {
				return errors.New("the connection is to a server that does not serve any more")
			}
			return nil
		},
	}
	return c
}

func (c *client) close() error { return c.pool.Close() }

// renew lets later calls make new connections. It is called when a server says that it does not serve, such as one that
// has become a replica.
func (c *client) renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stale = time.Now()
}

// A dialError means that there was no connection, so nothing was sent.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

// dial makes a connection to the server, which sentinels may have to name.
func (c *client) dial(ctx context.Context) (driver.Conn, error) {
	a := c.address
	login := []driver.DialOption{driver.DialUsername(a.user), driver.DialPassword(a.password),
		driver.DialDatabase(a.database)}
	if a.master == "" {
		return c.dialHost(ctx, a.host, login...)
	}
	host, err := c.findMaster(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := c.dialHost(ctx, host, login...)
	if err != nil {
		return nil, err
	}
	// A server that was replaced may not know it yet, or the sentinels may not.
	role, err := driver.Values(conn.(driver.ConnWithContext).DoContext(ctx, "ROLE"))
	if err == nil && len(role) > 0 {
		if name, _ := driver.String(role[0], nil); name != "master" {
			err = fmt.Errorf("%s is a %s", host, name)
		}
	}
	if err != nil {
		_ = conn.Close()
		return nil, dialError{err}
	}
	return conn, nil
}

func (c *client) dialHost(ctx context.Context, host string, options ...driver.DialOption) (driver.Conn, error) {
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
	a := c.address
	var faults []error
	for _, sentinel := range append([]string{a.host}, a.others...) {
		host, err := c.askSentinel(ctx, sentinel)
		if err == nil {
			return host, nil
		}
		faults = append(faults, fmt.Errorf("sentinel %s: %w", sentinel, err))
	}
	return "", dialError{errors.Join(faults...)}
}

func (c *client) askSentinel(ctx context.Context, sentinel string) (string, error) {
	name, _, _ := net.SplitHostPort(sentinel)
	if err := c.address.checkClear(name); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, sentinelTimeout)
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
	return net.JoinHostPort(found[0], found[1]), c.address.checkClear(found[0])
}

func dialer(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: connectTimeout, KeepAlive: cluster.Lease / 2}
	return d.DialContext(ctx, network, address)
}

// do sends one command.
func (c *client) do(ctx context.Context, command string, args ...any) (any, error) {
	return c.with(ctx, func(conn driver.ConnWithContext) (any, error) { return conn.DoContext(ctx, command, args...) })
}

// with calls fn with a connection.
func (c *client) with(ctx context.Context, fn func(driver.ConnWithContext) (any, error)) (any, error) {
	conn, err := c.pool.GetContext(ctx)
	if err != nil {
		if _, ok := errors.AsType[dialError](err); !ok {
			err = dialError{err} // the context has ended, or the pool is closed
		}
		return nil, err
	}
	result, err := fn(conn.(driver.ConnWithContext))
	_ = conn.Close() // back into the pool
	if hasCode(err, movedCodes) {
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

// eval runs a script. With replicas it returns when so many have what was written; the server knows by the connection
// for what to wait.
func (c *client) eval(ctx context.Context, s script, replicas int, key string, args []any) (any, error) {
	all := append([]any{s.sha, 1, key}, args...)
	return c.with(ctx, func(conn driver.ConnWithContext) (any, error) {
		result, err := conn.DoContext(ctx, "EVALSHA", all...)
		if hasCode(err, []string{"NOSCRIPT"}) {
			if _, err := conn.DoContext(ctx, "SCRIPT", "LOAD", s.text); err != nil {
				return nil, dialError{err} // the script was not run
			}
			result, err = conn.DoContext(ctx, "EVALSHA", all...)
		}
		if err != nil || replicas == 0 {
			return result, err
		}
		n, err := driver.Int(conn.DoContext(ctx, "WAIT", replicas, replicaTimeout.Milliseconds()))
		if err != nil {
			return nil, waitError{err}
		}
		if n < replicas {
			return nil, waitError{fmt.Errorf("%d replicas have the write after %v, and %d must", n, replicaTimeout,
				replicas)}
		}
		return result, nil
	})
}

// A waitError means that a write was done, and that replicas may not have it.
type waitError struct{ error }

func (e waitError) Unwrap() error { return e.error }
