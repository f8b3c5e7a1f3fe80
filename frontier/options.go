package frontier

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"

	"github.com/mapwright/mapwright/frontier/pace"
)

// Off is the value that switches off an option whose zero value means a default.
const Off = -1

// Options are a frontier's settings. The zero value is a polite crawl of
// everything that is added.
type Options struct {
	// Seed is drawn at random once per crawl and kept with its store: keys are
	// hashes under it, so that a site, which does not know it, cannot make two URLs collide.
	Seed uint64
	// Shards is how many parts the frontier is cut into, each behind its own lock.
	// Zero means one per CPU. Nothing on disk depends on it.
	Shards int
	// Closed makes a frontier whose partitions are all closed at first; OpenPartition opens them. By default all are
	// open.
	Closed bool
	// Pace is the profile of every host. Its zero value means pace.Polite.
	Pace pace.Config

	// Registry makes the crawls of a process keep one pace for each host. A nil
	// registry means that no other crawl asks the same hosts.
	Registry *pace.Registry
	// Account names whose crawl it is, in the registry: an account leaves others a place at each host.
	Account string
	// Addresses is the crawl's share of what all crawls of the process may ask of one network address; see
	// [Lease.Reach]. Nil means no limit for addresses.
	Addresses *pace.AddressShare

	// MaxInMemory is how many URLs are held in memory, leased ones included. Zero
	// means 5,000,000. The others stay in the store until there is room.
	MaxInMemory int
	// MaxHosts is how many hosts are active at once; the others are parked. Zero means 500,000.
	MaxHosts int
	// MaxVerify is how many keys may be looked up in the store at once to find out
	// whether the filter erred. Zero means 512.
	MaxVerify int
	// MaxRobots is how many robots leases are out at once. Zero means 64.
	MaxRobots int

	// FilterCapacity is how many URLs the filter is made for at first; it grows by
	// itself. Zero means 10,000,000.
	FilterCapacity int
	// FilterFPRate is the filter's rate of false positives. Zero means 0.01.
	FilterFPRate float64
	// HotSetBytes bounds the memory that remembers recent keys exactly. Zero means
	// 256 MiB; it is taken as it is needed.
	HotSetBytes int

	// Generation is the number of the crawl over the data, from 0: finishes carry
	// it, and page limits count those of one generation.
	Generation uint32
	// MaxURLs is how many pages are fetched in a generation. Zero means no limit.
	MaxURLs int64
	// URLsUsed is how many of them earlier runs have used: the finished URLs with
	// Finish.Counted.
	URLsUsed int64
	// MaxURLsPerHost limits the pages of each host likewise. Zero means no limit.
	MaxURLsPerHost int64
	// Grants bounds the pages of each partition by what it is granted ([Opening], [Member.Grant]).
	// It takes the place of MaxURLs where several frontiers share a limit.
	Grants bool
	// MaxRetries is how often a refused or failed URL is tried again. Zero means
	// 3, Off never.
	MaxRetries int
	// FailureThreshold is how many URLs of a domain fail for good in a row, with no
	// success among them, before the domain is abandoned. Zero means 20, Off never.
	FailureThreshold int
	// CancelOnThrottle abandons a domain too when a host of it refuses
	// FailureThreshold (or 20) times in a row at the slowest pace.
	CancelOnThrottle bool
	// Run is the number of this run, from 1.
	Run uint64
	// Continues is the number of an earlier run that was interrupted and that this run continues. Hosts that were
	// blocked or abandoned in that run or later stay so, and their counts of failures in a row go on. Zero or Run means
	// that this is a new run: all hosts are tried again.
	Continues uint64
	// LevelByLevel finishes each depth before the next is opened, so that a URL's
	// depth does not depend on timing. Depths above 239 are opened together. With Closed, levels
	// are opened by [Member.OpenLevel], since other frontiers may have URLs of a lesser depth.
	LevelByLevel bool
	// KeepTurn is how many leases in a row a host without a delay gets before the
	// next host has its turn: a warm connection is worth some unfairness. Zero
	// means 1; 16 for crawls of one's own site.
	KeepTurn int
	// IgnoreRobots leases pages and sitemaps without asking for robots.txt.
	IgnoreRobots bool
	// SkipSitemaps leaves queued sitemaps where they are: they are not leased, and the
	// crawl does not wait for them.
	SkipSitemaps bool

	// Names, when not nil, returns what a link from the given source says of its URL. That is recorded, once in a run:
	// see [Record.Named]. It is called with locks held.
	Names func(source uint8) Names

	// MayStart, when not nil, is called by each Start after the checks of the lease. If it reports false, Start returns
	// ErrNotNow. It is called with locks held, and must not wait.
	MayStart func() bool
	// Admit, when not nil, is called for every link that passes the filter as
	// probably new, before it is recorded. It may set Finish or Skip, and append
	// evidence, which is recorded also if the link turns out to be known or is skipped.
	// It is called without locks, from many goroutines.
	Admit func(*Link, []Evidence) []Evidence
	// Observe, when not nil, is called with what happens to hosts, for log and metrics. It is called without locks,
	// from many goroutines. Next returns ErrDrained only after it was called for everything.
	Observe func(Notice)
}

func (o Options) withDefaults() Options {
	o.Shards = cmp.Or(o.Shards, runtime.GOMAXPROCS(0))
	if o.Pace == (pace.Config{}) {
		o.Pace = pace.Polite()
	}
	o.Pace = o.Pace.WithDefaults()
	o.MaxInMemory = cmp.Or(o.MaxInMemory, 5_000_000)
	o.MaxHosts = cmp.Or(o.MaxHosts, 500_000)
	o.MaxVerify = cmp.Or(o.MaxVerify, 512)
	o.MaxRobots = cmp.Or(o.MaxRobots, 64)
	o.FilterCapacity = cmp.Or(o.FilterCapacity, 10_000_000)
	o.FilterFPRate = cmp.Or(o.FilterFPRate, 0.01)
	o.HotSetBytes = cmp.Or(o.HotSetBytes, 256<<20)
	o.MaxRetries = cmp.Or(o.MaxRetries, 3)
	o.FailureThreshold = cmp.Or(o.FailureThreshold, 20)
	o.KeepTurn = cmp.Or(o.KeepTurn, 1)
	o.Shards = min(o.Shards, partitions, max(1, o.MaxHosts))
	return o
}

// newRun is the value of partition.since for a new run: what earlier runs blocked or abandoned is tried again.
func (o *Options) newRun() uint64 { return max(1, o.Run) }

// Validate names everything that is wrong with o, joined into one error. Zeros that mean a default are right.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	bad := func(when bool, format string, args ...any) {
		if when {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(o.Shards < 1, "shards %d is under 1", o.Shards)
	bad(o.MaxInMemory < 1, "urls in memory %d is under 1", o.MaxInMemory)
	bad(o.MaxHosts < 1, "hosts %d is under 1", o.MaxHosts)
	bad(o.MaxVerify < 1, "verifications %d is under 1", o.MaxVerify)
	bad(o.MaxRobots < 1, "robots leases %d is under 1", o.MaxRobots)
	bad(o.FilterCapacity < 1, "filter capacity %d is under 1", o.FilterCapacity)
	bad(!(o.FilterFPRate > 0 && o.FilterFPRate < 1), "filter false-positive rate %v is not within 0 and 1",
		o.FilterFPRate)
	bad(o.HotSetBytes < 0, "hot set of %d bytes", o.HotSetBytes)
	bad(o.MaxURLs < 0, "page limit %d is negative", o.MaxURLs)
	bad(o.URLsUsed < 0, "used pages %d is negative", o.URLsUsed)
	bad(o.MaxURLsPerHost < 0, "page limit per host %d is negative", o.MaxURLsPerHost)
	bad(o.MaxRetries < Off || o.MaxRetries > 250, "retries %d is not within 0 and 250", o.MaxRetries)
	bad(o.FailureThreshold < Off, "failure threshold %d is negative", o.FailureThreshold)
	bad(o.KeepTurn < 1, "turn of %d leases is under 1", o.KeepTurn)
	errs = append(errs, o.Pace.Validate())
	return errors.Join(errs...)
}
