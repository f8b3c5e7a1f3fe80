// Package redis keeps crawls of several machines in Redis or Valkey. It implements
// [cluster.Engine]. Open connects and checks the settings of the server, Close ends all
// connections; in between every method may be called concurrently.
//
// Each call is one script, engine.lua, which the server runs at one moment. All keys of a
// crawl have one hash tag. DESIGN.md of package cluster has the reasons.
package redis

import (
	"context"
	_ "embed"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/mapwright/mapwright/internal/cluster"
)

//go:embed engine.lua
var source string

// mostRows is how many rows one answer has at most.
const mostRows = 4096

// An Engine is a server, or a Redis Cluster.
type Engine struct {
	client  *client
	script  script
	secrets []string // what must not be in messages
	wait    wait     // of calls that write
	server  server   // as it was when it was opened
	full    atomic.Pointer[string]
}

var _ cluster.Engine = (*Engine)(nil)

// Open connects to the server of a URL such as redis://user@host:6379/0, or to the Redis Cluster of one such as
// redis+cluster://user@host1:6379,host2:6379.
func Open(ctx context.Context, text string) (*Engine, error) {
	a, err := parseAddress(text)
	if err != nil {
		return nil, err
	}
	e := &Engine{client: newClient(a), secrets: secrets(a.password)}
	e.script = newScript(fmt.Sprintf("local LEASE, MOST = %d, %d\n", cluster.Lease.Microseconds(), mostRows) + source)
	if err := e.check(ctx); err != nil {
		_ = e.client.close()
		if isRefused(err) { // the address is wrong, rather than the server
			err = usage("%s", e.redact(err.Error()))
		}
		return nil, e.classify("open the cluster's server", err, false)
	}
	e.wait = wait{replicas: a.replicas, disk: e.server.waitAOF}
	return e, nil
}

// secrets are the forms in which a password may be in a message.
func secrets(password string) []string {
	if password == "" {
		return nil
	}
	return []string{password, url.QueryEscape(password), url.PathEscape(password)}
}

// Close implements [cluster.Engine].
func (e *Engine) Close() error { return e.client.close() }

// catalog is the key of the names of all crawls, with their ids.
const catalog = "mapwright:crawls"

// prefix is how the keys of a crawl begin. What is in braces decides which node of several has them.
func prefix(id cluster.CrawlID) string { return "mapwright:{" + id.String() + "}:" }

// A reply is what a script has answered.
type reply []any

// run makes a call that reads.
func (e *Engine) run(ctx context.Context, id cluster.CrawlID, call string, args ...any) (reply, error) {
	result, err := e.client.eval(ctx, e.script, wait{}, prefix(id), append([]any{call}, args...))
	return toReply(result, err)
}

// write makes a call that changes something. It is acknowledged when as many replicas have it as must.
func (e *Engine) write(ctx context.Context, id cluster.CrawlID, call string, args ...any) (reply, error) {
	result, err := e.client.eval(ctx, e.script, e.wait, prefix(id), append([]any{call}, args...))
	return toReply(result, err)
}

// toReply makes an error of the word with which an answer begins.
func toReply(result any, err error) (reply, error) {
	if err != nil {
		return nil, err
	}
	list, _ := result.([]any)
	if len(list) == 0 {
		return nil, usage("the server answers %T", result)
	}
	var d decoder
	switch word := d.text(list[0]); word {
	case "ok", "fence":
		return list, nil
	case "no crawl":
		return nil, cluster.ErrNoCrawl
	case "fenced":
		return nil, cluster.ErrFenced
	case "rolled back":
		return nil, cluster.ErrRolledBack
	case "exists":
		return nil, cluster.ErrExists
	case "tokens":
		return nil, errTokens
	case "usage":
		return nil, usage("%s", d.text(reply(list).at(1)))
	default:
		return nil, usage("the server answers %q", word)
	}
}

// errTokens means that tokens of a batch are not as the session knows them.
var errTokens = fmt.Errorf("a token that the batch releases is not held, or one that it begins exists: %w",
	cluster.ErrFenced)

// redact removes the password from a text, and makes it one line.
func (e *Engine) redact(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, secret := range e.secrets {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}
