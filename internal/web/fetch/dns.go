package fetch

import (
	"container/list"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// A dnsCache remembers the addresses of names. Callers that wait for the same name share one lookup. It ends when none
// of them waits any more: there are never more lookups than callers, for which there are sockets.
type dnsCache struct {
	resolver Resolver
	sockets  *sockets
	ttl      time.Duration // dnsTTL; less in tests

	ctx    context.Context // ended by close
	cancel context.CancelFunc
	wg     sync.WaitGroup // lookups

	mu      sync.Mutex
	entries map[string]*list.Element // guarded by mu; values are *dnsEntry
	recent  *list.List               // guarded by mu; the least recently used last
}

// A dnsEntry is a name's answer, which is written before done is closed and never after.
type dnsEntry struct {
	host    string
	cancel  context.CancelFunc
	waiting int // guarded by dnsCache.mu; callers
	done    chan struct{}
	addrs   []netip.Addr
	err     error
	expires time.Time
}

func newDNSCache(o Options, s *sockets) *dnsCache {
	c := &dnsCache{
		resolver: o.Resolver,
		sockets:  s,
		ttl:      dnsTTL,
		entries:  make(map[string]*list.Element),
		recent:   list.New(),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// close ends the lookups under way and waits for them.
func (c *dnsCache) close() {
	c.cancel()
	c.wg.Wait()
}

// lookup returns a name's addresses, which the caller must not change. Errors of
// DNS are *net.DNSError.
func (c *dnsCache) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	e := c.entry(host)
	defer c.leave(e)
	select {
	case <-e.done:
		return e.addrs, e.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// entry returns the entry of a name, for which one more caller waits. It starts a lookup if there is no entry that
// still counts.
func (c *dnsCache) entry(host string) *dnsEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.entries[host]; ok {
		e := el.Value.(*dnsEntry)
		if !e.stale() {
			c.recent.MoveToFront(el)
			e.waiting++
			return e
		}
		c.removeLocked(el)
	}
	for c.recent.Len() >= dnsSize {
		c.removeLocked(c.recent.Back())
	}
	ctx, cancel := context.WithTimeout(c.ctx, dnsTimeout)
	e := &dnsEntry{host: host, cancel: cancel, waiting: 1, done: make(chan struct{})}
	c.entries[host] = c.recent.PushFront(e)
	c.wg.Go(func() { c.resolve(ctx, e) })
	return e
}

// leave notes that a caller of entry does not wait any more.
func (c *dnsCache) leave(e *dnsEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.waiting--; e.waiting > 0 || e.finished() {
		return
	}
	e.cancel()
	if el := c.entries[e.host]; el != nil && el.Value == e {
		c.removeLocked(el)
	}
}

func (e *dnsEntry) stale() bool { return e.finished() && !time.Now().Before(e.expires) }

func (c *dnsCache) removeLocked(el *list.Element) {
	delete(c.entries, el.Value.(*dnsEntry).host)
	c.recent.Remove(el)
}

// forget drops the addresses of a name, because none of them took a connection.
func (c *dnsCache) forget(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.entries[host]; ok {
		if e := el.Value.(*dnsEntry); e.finished() && e.err == nil {
			c.removeLocked(el)
		}
	}
}

func (e *dnsEntry) finished() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

func (c *dnsCache) resolve(ctx context.Context, e *dnsEntry) {
	defer e.cancel()
	addrs, err := c.ask(ctx, e.host)
	if err == nil && len(addrs) == 0 {
		err = &net.DNSError{Err: "no addresses", Name: e.host, IsNotFound: true}
	}
	e.addrs, e.err = slices.Clone(addrs[:min(len(addrs), mostAddresses)]), asDNSError(e.host, err)
	e.expires = time.Now().Add(c.keep(e.err))
	close(e.done)
}

// mostAddresses is how many addresses of a name are kept.
const mostAddresses = 16

// lookupSockets is how many sockets a look-up may have open: one for each family.
const lookupSockets = 2

func (c *dnsCache) ask(ctx context.Context, host string) ([]netip.Addr, error) {
	if err := c.sockets.take(ctx, lookupSockets); err != nil {
		return nil, err
	}
	defer c.sockets.release(lookupSockets)
	return c.resolver.LookupNetIP(ctx, "ip", host)
}

// asDNSError makes every failure of a lookup a *net.DNSError, by which the rest of the package recognises it.
func asDNSError(host string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return err
	}
	return &net.DNSError{UnwrapErr: err, Err: err.Error(), Name: host,
		IsTimeout: errors.Is(err, context.DeadlineExceeded)}
}

// keep says how long an answer counts. A failure of our own machine says nothing
// about the name and is not kept.
func (c *dnsCache) keep(err error) time.Duration {
	dns, failed := errors.AsType[*net.DNSError](err)
	switch {
	case !failed:
		return c.ttl
	case isOurs(err):
		return 0
	case dns.IsNotFound:
		return dnsNegativeTTL
	}
	return dnsNegativeTTL / 6
}
