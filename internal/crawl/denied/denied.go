// Package denied keeps the hosts that no crawl of a process may ask, and ends requests to them.
package denied

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// ErrHost is why a request to a denied host was not made, or was ended.
var ErrHost = errors.New("the host is denied")

// List is the set of denied hosts, and the requests that are under way. It is safe for any number of goroutines.
type List struct {
	hosts atomic.Pointer[config.HostSet] // written by Set

	mu       sync.Mutex
	requests map[*request]bool // guarded by mu
}

// A request is one that is under way.
type request struct {
	host   string
	cancel context.CancelCauseFunc
}

// New makes an empty list.
func New() *List {
	l := &List{requests: map[*request]bool{}}
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
	for r := range l.requests {
		if set.Has(r.host) {
			r.cancel(ErrHost)
		}
	}
	return nil
}

// A Fetcher makes no request to hosts of a list, and ends those that are under way. Its errors wrap ErrHost then, but
// for those of a Response's Reader, which are of the kind Canceled: the next request tells.
type Fetcher struct {
	Inner interface {
		Do(ctx context.Context, r fetch.Request) (*fetch.Response, error)
	}
	Hosts *List
}

// Do fetches.
func (f Fetcher) Do(ctx context.Context, r fetch.Request) (*fetch.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	under := &request{host: r.URL.Host(), cancel: cancel}
	l := f.Hosts
	l.mu.Lock()
	l.requests[under] = true
	l.mu.Unlock()
	end := func() {
		l.mu.Lock()
		delete(l.requests, under)
		l.mu.Unlock()
		cancel(nil)
	}
	// Set stores the hosts before it looks at the requests, so one of the two finds the other.
	if l.hosts.Load().Has(under.host) {
		end()
		return nil, &fetch.Error{Kind: fetch.Canceled, Phase: "start", Err: ErrHost}
	}
	resp, err := f.Inner.Do(ctx, r)
	if err != nil && context.Cause(ctx) == ErrHost {
		err = &fetch.Error{Kind: fetch.Canceled, Phase: "start", Err: ErrHost}
	}
	if err == nil && resp.Reader != nil {
		resp.OnClose(end)
	} else {
		end()
	}
	return resp, err
}
