package crawl

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// errDenied is why a request to a denied host was not made, or was ended.
var errDenied = errors.New("the host is denied")

// denyList is the set of denied hosts, and the requests that are under way. It is safe for any number of goroutines.
type denyList struct {
	hosts atomic.Pointer[config.HostSet] // written by set

	mu       sync.Mutex
	requests map[*deniableRequest]bool // guarded by mu
}

// A deniableRequest is a request that is under way.
type deniableRequest struct {
	host   string // as deniedAs returns it
	cancel context.CancelCauseFunc
}

func newDenyList() *denyList {
	l := &denyList{requests: map[*deniableRequest]bool{}}
	l.hosts.Store(&config.HostSet{})
	return l
}

// set replaces the denied hosts, as config.NewHostSet reads them, and ends the requests to them that are under way.
func (l *denyList) set(hosts []string) error {
	set, err := config.NewHostSet(hosts)
	if err != nil {
		return err
	}
	l.hosts.Store(&set)
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.requests {
		if set.Has(r.host) {
			r.cancel(errDenied)
		}
	}
	return nil
}

// A denyingFetcher makes no request to a denied host, and ends those under way when a host is denied. Its errors then
// wrap errDenied. An error of a Response's Reader does not: its kind is Canceled, and the next request to the host
// fails with errDenied.
type denyingFetcher struct {
	fetch.Fetcher
	hosts *denyList
}

// Do implements fetch.Fetcher.
func (f denyingFetcher) Do(ctx context.Context, r fetch.Request) (*fetch.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	under := &deniableRequest{host: deniedAs(r.URL.Host()), cancel: cancel}
	l := f.hosts
	l.mu.Lock()
	l.requests[under] = true
	l.mu.Unlock()
	end := func() {
		l.mu.Lock()
		delete(l.requests, under)
		l.mu.Unlock()
		cancel(nil)
	}
	// set stores the hosts before it looks at the requests, and Do adds its request before it looks at the hosts. So at
	// least one of them sees the other.
	if l.hosts.Load().Has(under.host) {
		end()
		return nil, &fetch.Error{Kind: fetch.Canceled, Phase: "start", Err: errDenied}
	}
	resp, err := f.Fetcher.Do(ctx, r)
	if err != nil && context.Cause(ctx) == errDenied {
		err = &fetch.Error{Kind: fetch.Canceled, Phase: "start", Err: errDenied}
	}
	if err == nil && resp.Reader != nil {
		resp.OnClose(end)
	} else {
		end()
	}
	return resp, err
}

// deniedAs is the host by which a request is denied. An IPv4 address in the form of IPv6 is the same server.
func deniedAs(host string) string {
	if !strings.HasPrefix(host, "[::ffff:") {
		return host
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil || !addr.Is4In6() {
		return host
	}
	return addr.Unmap().String()
}
