// Package denied keeps the hosts that no crawl of a process may ask, and ends requests to them.
package denied

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/fetch"
)

// List is the set of denied hosts, and the leases that are being served. It is safe for any number of goroutines.
type List struct {
	hosts atomic.Pointer[config.HostSet] // written by Set

	mu      sync.Mutex
	flights map[*Flight]bool // guarded by mu
}

// New makes an empty list.
func New() *List {
	l := &List{flights: map[*Flight]bool{}}
	l.hosts.Store(&config.HostSet{})
	return l
}

// Set replaces the denied hosts, as config.NewHostSet reads them, and ends the requests to them that are under way.
func (l *List) Set(hosts []string) error {
	set, err := config.NewHostSet(hosts)
	if err != nil {
		return err
	}
	l.hosts.Store(&set)
	l.mu.Lock()
	defer l.mu.Unlock()
	for f := range l.flights {
		if set.Has(f.host) {
			f.cancel()
		}
	}
	return nil
}

// A Flight is one lease that is being served.
type Flight struct {
	host   string
	ctx    context.Context // of its requests: ended when the host is denied
	cancel context.CancelFunc
}

// Begin begins to serve a lease of a host. It returns nil if the host is denied, else a context for the lease and the flight, for which End follows. Only requests
// by a Fetcher of this package end when the host is denied: what the lease does beside them goes on.
func (l *List) Begin(ctx context.Context, host string) (context.Context, *Flight) {
	f := &Flight{host: host}
	f.ctx, f.cancel = context.WithCancel(ctx)
	l.mu.Lock()
	l.flights[f] = true
	l.mu.Unlock()
	if l.hosts.Load().Has(host) { // Set stores the hosts before it looks at the flights, so one of the two finds the other
		l.End(f)
		return nil, nil
	}
	return context.WithValue(ctx, flightKey{}, f), f
}

// End ends a flight.
func (l *List) End(f *Flight) {
	l.mu.Lock()
	delete(l.flights, f)
	l.mu.Unlock()
	f.cancel()
}

type flightKey struct{}

// A Fetcher ends requests of flights whose host is denied.
type Fetcher struct {
	Inner interface {
		Do(ctx context.Context, r fetch.Request) (*fetch.Response, error)
	}
}

// Do fetches.
func (f Fetcher) Do(ctx context.Context, r fetch.Request) (*fetch.Response, error) {
	if flight, ok := ctx.Value(flightKey{}).(*Flight); ok {
		ctx = flight.ctx
	}
	return f.Inner.Do(ctx, r)
}
