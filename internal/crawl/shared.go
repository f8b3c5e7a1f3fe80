package crawl

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/gate"
	"github.com/mapwright/mapwright/internal/crawl/robotscache"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// SharedOptions bound what the crawls of a process use together.
type SharedOptions struct {
	// MaxWorkers is how many leases all crawls together serve at the same time. Zero means that only the limits of the
	// crawls themselves count.
	MaxWorkers int

	// MaxIdlePerHost is how many idle connections a crawl keeps for one host. Zero means the default of package fetch.
	MaxIdlePerHost int

	// OtherSockets is how many sockets the process may use for other things than crawls.
	OtherSockets int

	// MaxParsers bounds how many pages all crawls together parse at once, besides one of each account. Zero means that
	// only their settings do.
	MaxParsers int
	// OneCrawl means that only one crawl uses the Shared, so the pace of hosts is not shared between crawls.
	OneCrawl bool

	// BodyMemory bounds the large bodies that all crawls together have in memory, in bytes. Zero means the default of
	// package fetch.
	BodyMemory int64

	// TreeMemory bounds the trees that the extractors of one crawl need, in bytes. Zero means the default of package
	// parser.
	TreeMemory int64

	// RobotsMemory bounds the parsed robots.txt files of one crawl, in bytes. Zero means robotscache.DefaultMemory. The
	// other two budgets of memory, for recent keys and for the frontier, are settings of a crawl.
	RobotsMemory int
}

// ForOneCrawl are the options of a process that runs one crawl, by its settings.
func ForOneCrawl(s *config.Settings) SharedOptions {
	return SharedOptions{MaxWorkers: s.MaxWorkers, MaxIdlePerHost: min(s.MaxInflightPerHost, s.MaxWorkers),
		OneCrawl: true}
}

// Shared is what the crawls of a process have in common: sockets and the memory for bodies, the pace of hosts and
// addresses, the worker cap, and the gate for pages that are tried alone. Whatever a crawl may reach or send is not
// here: each crawl makes a client of its own from the shared one. It is safe for any number of crawls. Close it when
// they have ended.
type Shared struct {
	robotsMemory int
	treeMemory   int64
	client       *fetch.Client  // each crawl's client is made from it
	pace         *pace.Registry // nil if there is one crawl only
	addresses    *pace.Addresses
	denied       *denyList // nil if there is one crawl only
	gate         *gate.Gate
	parsing      *gate.Gate // for pages and sitemaps that are computed
	parsers      int        // MaxParsers
	turns        *gate.Gate // for crawls that begin, or begin to write their outputs
}

// NewShared makes what crawls share. Nothing is opened yet.
func NewShared(o SharedOptions) (*Shared, error) {
	sockets, err := fetch.SocketLimit()
	if err != nil {
		return nil, err
	}
	sockets = max(2, sockets-o.OtherSockets)
	workers := gate.Spare
	if o.OneCrawl {
		workers = gate.All
	}
	s := &Shared{robotsMemory: cmp.Or(o.RobotsMemory, robotscache.DefaultMemory), treeMemory: o.TreeMemory,
		addresses: pace.NewAddresses(), gate: gate.New(cmp.Or(o.MaxWorkers, math.MaxInt), workers),
		parsing: gate.New(cmp.Or(o.MaxParsers, math.MaxInt), gate.OneEach), parsers: o.MaxParsers,
		turns: gate.New(max(1, runtime.GOMAXPROCS(0)/2), gate.OneEach)}
	s.client, err = fetch.New(fetch.Options{MaxInflight: min(o.MaxWorkers, sockets/2), MaxSockets: sockets,
		MaxIdlePerHost: o.MaxIdlePerHost, MaxMemory: o.BodyMemory})
	if err != nil {
		return nil, err
	}
	if !o.OneCrawl {
		s.pace, s.denied = pace.NewRegistry(), newDenyList()
	}
	return s, nil
}

// Pace is what the crawls know together about hosts; nil if there is one crawl only.
func (s *Shared) Pace() *pace.Registry { return s.pace }

// Compute waits until something may be computed for an account, beside what its crawls compute, and returns what ends
// that. It does not wait any longer if ctx ends.
func (s *Shared) Compute(ctx context.Context, account string) (done func()) {
	p := place{of: s.parsing.Join(account, 1), ctx: ctx}
	p.take()
	return p.end
}

// Yield makes the crawls compute with half of their parsers, or with all of them again. So there is a processor for
// others, unless there is only one.
func (s *Shared) Yield(half bool) {
	n := s.parsers / 2
	if !half {
		n = -n
	}
	s.parsing.Reserve(n)
}

// Deny replaces the hosts that no crawl may ask, as config.NewHostSet reads them. Requests to them that are under way
// end at once, and each crawl that tries such a host blocks it. A host that is no longer denied is tried again by the
// next run of a crawl that blocked it.
func (s *Shared) Deny(hosts []string) error { return s.denied.set(hosts) }

// Close releases what is shared. All crawls must have ended.
func (s *Shared) Close() error { return s.client.Close() }

// mostWorkers is how many workers fit into the process's limit of open files: each may have one socket in use and
// another that it tries to connect.
func mostWorkers() (int, error) {
	sockets, err := fetch.SocketLimit()
	return max(1, sockets/2), err
}

// longestTurn is enough for the outputs of a crawl of some ten thousand pages.
const longestTurn = 2 * time.Second

// takeTurn waits until a crawl of the account may begin, or begin to write its outputs, or for the end of ctx. The
// caller calls done. Each of these needs a processor for a moment, and many at once would delay everything else in the
// process: an account has as many turns at once as half of the processors, and others one each. What takes longer than
// longestTurn goes on without its turn.
func (s *Shared) takeTurn(ctx context.Context, account string) (done func()) {
	p := s.turns.Join(account, math.MaxInt)
	if p.Enter(ctx, false) != nil {
		return func() {}
	}
	end := sync.OnceFunc(func() { p.Leave(false) })
	late := time.AfterFunc(longestTurn, end)
	return func() {
		late.Stop()
		end()
	}
}
