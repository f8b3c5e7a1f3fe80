// Package robotscache asks origins for their robots.txt and keeps what they answered: as served in the store, parsed in
// memory up to a bound. It also says what an answer means for one URL.
package robotscache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/web/fetch"
	"github.com/mapwright/mapwright/internal/web/robots"
	"github.com/mapwright/mapwright/internal/words"
	"github.com/mapwright/mapwright/state"
)

// How long an answer counts, and what one fetch may take.
const (
	TTL     = 24 * time.Hour
	Retry   = 10 * time.Minute // after a request that failed
	timeout = 3 * time.Second
	MaxHops = 5
	Path    = "/robots.txt"
)

// Answer is what an origin's robots.txt says to this crawler.
type Answer struct {
	Rules    *robots.Rules
	Sitemaps []string
	Expires  time.Time
	// Unknown means that robots.txt could not be fetched: what is allowed then is an assumption, and is recorded as
	// one.
	Unknown bool
	// Why says why it could not be fetched, or that there is none: a status or an error. Only the status is stored.
	Why string
	// Silent means that the host gave no answer: skip further requests.
	Silent bool
	// Deny means that it could not be fetched and that this counts as disallowing everything.
	Deny bool
}

// Assumption says what holds where there are no rules, and why; it is empty where there are some.
func (a *Answer) Assumption() string {
	switch {
	case a.Rules != nil:
		return ""
	case a.Deny:
		return fmt.Sprintf("robots.txt could not be fetched (%s); everything is disallowed (--robots-strict)", a.Why)
	case a.Unknown:
		return fmt.Sprintf("robots.txt could not be fetched (%s); assuming that everything is allowed", a.Why)
	}
	return fmt.Sprintf("there is no robots.txt (%s); everything is allowed", a.Why)
}

// Check is the evidence for one URL of the origin.
func (a *Answer) Check(u weburl.URL) page.Robots { return a.Evidence(a.Match(u)) }

// Evidence is that of a match of this moment.
func (a *Answer) Evidence(m robots.Match) page.Robots {
	return page.Robots{Checked: true, Allowed: m.Allowed, Rule: words.Shorten(m.Rule, maxRule), Low: a.Unknown,
		CheckedAt: time.Now(), CrawlDelay: a.CrawlDelay()}
}

// maxRule bounds what is recorded of a rule with each URL, in bytes. A line of robots.txt may have 16 KiB, and decide
// about every link of a page.
const maxRule = 1000

func (a *Answer) Match(u weburl.URL) robots.Match {
	if a.Rules != nil {
		return a.Rules.Match(u.RequestURI())
	}
	return robots.Match{Allowed: !a.Deny}
}

// MatchQuickly is Match if that takes some ten microseconds at most. Otherwise quick is false.
func (a *Answer) MatchQuickly(u weburl.URL) (m robots.Match, quick bool) {
	if a.Rules != nil {
		return a.Rules.MatchQuickly(u.RequestURI())
	}
	return robots.Match{Allowed: !a.Deny}, true
}

// CrawlDelay is the pause that robots.txt asks for, or zero.
func (a *Answer) CrawlDelay() time.Duration {
	if a.Rules == nil {
		return 0
	}
	d, _ := a.Rules.CrawlDelay()
	return d
}

// Fetch asks an origin for its robots.txt and follows redirects at once. It always returns an answer. An error says why
// the answer is an assumption. A crawl makes each redirect a request of its own, which the pace of a host has to allow.
func Fetch(ctx context.Context, f fetch.Fetcher, origin, token string, strict bool) (*Answer, error) {
	reader := Cache{token: token, strict: strict}
	u, err := weburl.Parse(origin + Path)
	if err != nil {
		fact := Failed(0)
		a := reader.answer(&fact)
		a.Why = err.Error()
		return a, fmt.Errorf("robots.txt of %s: %w", origin, err)
	}
	for hop := 0; ; hop++ {
		fact, next, _, err := Request(ctx, f, u, hop, nil)
		if fact.State == frontier.OriginUnknown {
			u = next
			continue
		}
		a := reader.answer(&fact)
		if err != nil {
			a.Why = err.Error()
			if e, ok := errors.AsType[*fetch.Error](err); ok {
				a.Why = e.Detail()
			}
		}
		return a, err
	}
}

// answer parses a fact, and returns what it says to this crawler.
func (k *Cache) answer(fact *frontier.OriginFact) *Answer {
	a := &Answer{Why: statusText(fact.Status), Expires: fact.Expires}
	switch fact.State {
	case frontier.OriginAnswered:
		file := robots.Parse(fact.Body)
		a.Rules = file.Agent(k.token)
		for _, s := range file.Sitemaps() {
			a.Sitemaps = append(a.Sitemaps, strings.Clone(s)) // otherwise it keeps the whole file in memory
		}
	case frontier.OriginFailed:
		a.Unknown, a.Deny, a.Silent = true, k.strict, fact.Status == 0
	}
	return a
}

func statusText(status uint16) string {
	return strings.TrimSpace(fmt.Sprint(status, " ", http.StatusText(int(status))))
}

// Failed is the fact that robots.txt could not be fetched. The status is 0 if there was no answer.
func Failed(status int) frontier.OriginFact {
	now := time.Now()
	return frontier.OriginFact{State: frontier.OriginFailed, Status: uint16(status), Fetched: now,
		Expires: now.Add(Retry)}
}

// Request makes one request, and returns a fact without an origin. After a redirect the state of the fact is unknown,
// and the URL says where to ask next. The response is closed; it is nil after an error. Hop is how many redirects came
// before.
func Request(ctx context.Context, f fetch.Fetcher, u weburl.URL, hop int,
	wire fetch.Wire) (frontier.OriginFact, weburl.URL, *fetch.Response, error) {
	resp, err := f.Do(ctx, fetch.Request{URL: u, Mode: fetch.Text, Timeout: timeout, MaxBody: robots.MaxSize + 1,
		Wire: wire, NewConn: true})
	if err != nil {
		status := 0
		if resp != nil { // what the host answered before the error
			status = resp.Status
		}
		resp.Close()
		return Failed(status), weburl.URL{}, nil, err
	}
	defer resp.Close()
	now := time.Now()
	fact := frontier.OriginFact{State: frontier.OriginNone, Status: uint16(resp.Status), Fetched: now,
		Expires: now.Add(TTL)}
	switch {
	case resp.OK():
		fact.State, fact.Body = frontier.OriginAnswered, bytes.Clone(resp.Body)
	case resp.Status >= 300 && resp.Status < 400 && resp.Location != "" && hop < MaxHops:
		if next, err := u.Resolve(resp.Location); err == nil {
			return frontier.OriginFact{}, next, resp, nil
		} // else it leads nowhere: as if there were none
	case resp.Status == 429 || resp.Status >= 500:
		fact = Failed(resp.Status)
	}
	// After any other 4xx, and after too many redirects, there is no robots.txt, and everything is allowed.
	return fact, weburl.URL{}, resp, nil
}

// Cache keeps what origins answered: parsed answers in memory up to a bound, all of them as served in the store.
type Cache struct {
	store  *state.Store
	hasher weburl.Hasher
	memory int // bound of size
	// compute waits until a long file may be parsed, and returns what ends that.
	compute func(ctx context.Context) (done func())

	token      string    // of this crawler in robots.txt
	strict     bool      // a robots.txt that could not be fetched disallows everything
	generation uint32    // of the crawl
	began      time.Time // when it began: answers from before do not count; zero in the first crawl
	opened     time.Time // when the run did

	updating sync.Mutex // held while a fact is read, changed and committed

	mu    sync.RWMutex
	known map[string]*Answer // guarded by mu; by origin
	size  int                // guarded by mu; bytes, about
}

// DefaultMemory is the usual bound of the parsed answers, in bytes. Parsing an answer again takes 30 µs for a usual
// file, and 10 to 60 ms for one of 500 KiB.
const DefaultMemory = 32 << 20

// New makes a cache over a store, for a crawl in a generation that began at the given time. Memory bounds its parsed
// answers, in bytes. Compute waits until a long file may be parsed, and returns what ends that.
func New(s *state.Store, settings *config.Settings, memory int, generation uint32, began time.Time,
	compute func(ctx context.Context) (done func())) *Cache {
	return &Cache{store: s, hasher: s.Hasher(), token: robots.ProductToken(settings.UserAgent),
		strict: settings.RobotsStrict, memory: memory, generation: generation, began: began, opened: time.Now(),
		compute: compute,
		known:   map[string]*Answer{}}
}

// Cached is an answer that is in memory and not too old, or nil.
func (k *Cache) Cached(origin string, now time.Time) *Answer {
	k.mu.RLock()
	a := k.known[origin]
	k.mu.RUnlock()
	if a == nil || now.After(a.Expires) {
		return nil
	}
	return a
}

// Lookup finds an answer in memory or in the store; nil if there is none that still counts.
func (k *Cache) Lookup(ctx context.Context, origin string) (*Answer, error) {
	if a := k.Cached(origin, time.Now()); a != nil {
		return a, nil
	}
	fact, err := k.Fact(ctx, origin)
	if err != nil || !k.IsValid(&fact) {
		return nil, err
	}
	return k.Remember(ctx, &fact), nil
}

// IsValid reports whether a fact has an answer that still counts. A redirect that was not followed counts in its run
// alone: the settings of another may allow it.
func (k *Cache) IsValid(fact *frontier.OriginFact) bool {
	if fact.State == frontier.OriginNone && fact.Status/100 == 3 && fact.Fetched.Before(k.opened) {
		return false
	}
	return fact.State != frontier.OriginUnknown && !time.Now().After(fact.Expires) &&
		!fact.Fetched.Before(k.began)
}

// OrEarlier returns answer, or earlier if robots.txt could not be fetched now and earlier is not too old. A recrawl has
// an earlier answer from before it began. It then counts until robots.txt is to be requested again.
func OrEarlier(answer, earlier frontier.OriginFact) frontier.OriginFact {
	if answer.State != frontier.OriginFailed || earlier.State != frontier.OriginAnswered &&
		earlier.State != frontier.OriginNone || answer.Fetched.After(earlier.Expires) {
		return answer
	}
	if earlier.Fetched = answer.Fetched; answer.Expires.Before(earlier.Expires) {
		earlier.Expires = answer.Expires
	}
	return earlier
}

// Fact is what the store knows of an origin, at least its name.
func (k *Cache) Fact(ctx context.Context, origin string) (frontier.OriginFact, error) {
	host := k.hasher.HostID(weburl.MustCanonical(origin + "/").Host())
	fact, ok, err := k.store.Origin(ctx, host, origin)
	if !ok {
		fact = frontier.OriginFact{Host: host, Origin: origin}
	}
	return fact, err
}

// Keep stores an origin's answer, on disk and in the cache.
func (k *Cache) Keep(ctx context.Context, origin string, answer frontier.OriginFact) error {
	fact, err := k.Update(ctx, origin, answer, false)
	if err == nil {
		k.Remember(ctx, &fact)
	}
	return err
}

// Update stores an answer of an origin, unless its state is unknown. If requested is set, it stores that the sitemaps
// which robots.txt names were requested in this generation. It returns all that is known of the origin then. Two robots
// leases of an origin may end at the same time, so the stored fact is read and changed under a lock.
func (k *Cache) Update(ctx context.Context, origin string, answer frontier.OriginFact,
	requested bool) (frontier.OriginFact, error) {
	k.updating.Lock()
	defer k.updating.Unlock()
	fact, err := k.Fact(ctx, origin)
	if err != nil {
		return fact, err
	}
	if answer.State != frontier.OriginUnknown {
		answer = OrEarlier(answer, fact)
		answer.Host, answer.Origin = fact.Host, fact.Origin
		answer.SitemapsRequested, answer.SitemapsGeneration = fact.SitemapsRequested, fact.SitemapsGeneration
		fact = answer
	}
	if requested {
		fact.SitemapsRequested, fact.SitemapsGeneration = true, k.generation
	}
	_, err = k.store.Commit(frontier.Record{Origins: []frontier.OriginFact{fact}})
	return fact, err
}

// short is how many bytes of a robots.txt are parsed at once. Half a megabyte of short lines takes as long as a large
// page.
const short = 16 << 10

// Remember parses an answer and takes it into memory.
func (k *Cache) Remember(ctx context.Context, fact *frontier.OriginFact) *Answer {
	done := func() {}
	if len(fact.Body) > short {
		done = k.compute(ctx)
	}
	a := k.answer(fact)
	done()
	k.mu.Lock()
	defer k.mu.Unlock()
	if old := k.known[fact.Origin]; old != nil {
		k.size -= old.size()
		delete(k.known, fact.Origin)
	}
	// The order of a map is as good as any to forget by: what is needed again comes back from the store.
	for name, old := range k.known {
		if k.size+a.size() <= k.memory {
			break
		}
		k.size -= old.size()
		delete(k.known, name)
	}
	k.known[fact.Origin] = a
	k.size += a.size()
	return a
}

func (a *Answer) size() int {
	n := 200
	if a.Rules != nil {
		n += a.Rules.Size()
	}
	for _, s := range a.Sitemaps {
		n += len(s) + 16
	}
	return n
}
