package crawl

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/fetch"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/robots"
	"github.com/mapwright/mapwright/internal/urlnorm"
	"github.com/mapwright/mapwright/state"
)

// How long an answer counts, and what one fetch may take.
const (
	robotsTTL     = 24 * time.Hour
	robotsRetry   = 10 * time.Minute // an answer that was none
	robotsTimeout = 3 * time.Second
	robotsHops    = 5
	robotsPath    = "/robots.txt"
)

// RobotsAnswer is what an origin's robots.txt says to us.
type RobotsAnswer struct {
	Rules     *robots.Rules
	Sitemaps  []string
	FetchedAt time.Time
	Expires   time.Time
	// Unknown means that robots.txt could not be fetched: what is allowed then is an assumption, and marked so.
	Unknown bool
	// Why says why it could not be fetched, or that there is none: a status or an error. Of the two only the status is stored.
	Why string
	// Silent means that there was no answer at all, so that asking the host for more is in vain for now.
	Silent bool
	// Deny means that it could not be fetched and that this counts as disallowing everything.
	Deny bool
}

// Assumption says what holds where there are no rules, and why; it is empty where there are some.
func (a *RobotsAnswer) Assumption() string {
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
func (a *RobotsAnswer) Check(u urlnorm.URL) (ev page.Robots, m robots.Match) {
	m = a.match(u)
	ev = page.Robots{Checked: true, Allowed: m.Allowed, Rule: m.Rule, Low: a.Unknown, CheckedAt: time.Now()}
	ev.CrawlDelay = a.CrawlDelay()
	return ev, m
}

func (a *RobotsAnswer) match(u urlnorm.URL) robots.Match {
	if a.Rules != nil {
		return a.Rules.Match(u.RequestURI())
	}
	return robots.Match{Allowed: !a.Deny}
}

// CrawlDelay is the pause that robots.txt asks for, or zero.
func (a *RobotsAnswer) CrawlDelay() time.Duration {
	if a.Rules == nil {
		return 0
	}
	d, _ := a.Rules.CrawlDelay()
	return d
}

// FetchRobots asks an origin for its robots.txt and follows redirects at once. It always has an answer; the error says why it is an
// assumption, and is one of the fetcher's. A crawl asks hop by hop, since each is a request that the pace of a host has to allow.
func FetchRobots(ctx context.Context, f Fetcher, origin, token string, strict bool) (*RobotsAnswer, error) {
	reader := robotsReader{token: token, strict: strict}
	u, err := urlnorm.Parse(origin + robotsPath)
	if err != nil {
		fact := failedRobots(0)
		a := reader.answer(&fact)
		a.Why = err.Error()
		return a, fmt.Errorf("robots.txt of %s: %w", origin, err)
	}
	for hop := 0; ; hop++ {
		fact, next, _, err := requestRobots(ctx, f, u, hop, nil)
		if fact.State == frontier.OriginUnknown {
			u = next
			continue
		}
		a := reader.answer(&fact)
		if err != nil {
			a.Why = errorText(err)
		}
		return a, err
	}
}

// robotsReader computes what a robots.txt means for this crawler.
type robotsReader struct {
	token  string
	strict bool // a robots.txt that could not be fetched disallows everything
}

// answer is what the fact says to us.
func (r robotsReader) answer(fact *frontier.OriginFact) *RobotsAnswer {
	a := &RobotsAnswer{Why: statusText(fact.Status), FetchedAt: fact.Fetched, Expires: fact.Expires}
	switch fact.State {
	case frontier.OriginAnswered:
		file := robots.Parse(fact.Body)
		a.Rules = file.Agent(r.token)
		for _, s := range file.Sitemaps() {
			a.Sitemaps = append(a.Sitemaps, strings.Clone(s)) // it is a part of the whole file
		}
	case frontier.OriginFailed:
		a.Unknown, a.Deny, a.Silent = true, r.strict, fact.Status == 0
	}
	return a
}

func statusText(status uint16) string {
	return strings.TrimSpace(fmt.Sprint(status, " ", http.StatusText(int(status))))
}

// failedRobots is the fact that robots.txt could not be fetched. The status is 0 if there was no answer.
func failedRobots(status int) frontier.OriginFact {
	now := time.Now()
	return frontier.OriginFact{State: frontier.OriginFailed, Status: uint16(status), Fetched: now, Expires: now.Add(robotsRetry)}
}

// requestRobots makes one request. It returns a fact without an origin, or of an unknown state together with where to ask next. The response is
// closed, and nil with an error. Hop counts the redirects before.
func requestRobots(ctx context.Context, f Fetcher, u urlnorm.URL, hop int, wire fetch.Wire) (frontier.OriginFact, urlnorm.URL, *fetch.Response, error) {
	resp, err := f.Do(ctx, fetch.Request{URL: u, Mode: fetch.Text, Timeout: robotsTimeout, MaxBody: robots.MaxSize + 1, Wire: wire, NewConn: true})
	if err != nil {
		status := 0
		if resp != nil { // what the host answered before the error
			status = resp.Status
		}
		resp.Close()
		return failedRobots(status), urlnorm.URL{}, nil, err
	}
	defer resp.Close()
	now := time.Now()
	fact := frontier.OriginFact{State: frontier.OriginNone, Status: uint16(resp.Status), Fetched: now, Expires: now.Add(robotsTTL)}
	switch {
	case resp.OK():
		fact.State, fact.Body = frontier.OriginAnswered, bytes.Clone(resp.Body)
	case resp.Status >= 300 && resp.Status < 400 && resp.Location != "" && hop < robotsHops:
		if next, err := u.Resolve(resp.Location); err == nil {
			return frontier.OriginFact{}, next, resp, nil
		} // else it leads nowhere: as if there were none
	case resp.Status == 429 || resp.Status >= 500:
		fact = failedRobots(resp.Status)
	}
	// Any other 4xx, and a redirect too many: there is none, so everything is allowed.
	return fact, urlnorm.URL{}, resp, nil
}

// robotsKeeper keeps what origins answered: parsed answers in memory up to a bound, all of them as served in the store.
type robotsKeeper struct {
	store  *state.Store
	hasher frontier.Hasher
	reader robotsReader

	mu    sync.RWMutex
	known map[string]*RobotsAnswer // guarded by mu; by origin
	size  int                      // guarded by mu; bytes, about
}

// robotsMemory bounds the parsed answers, in bytes. Parsing an answer again takes 30 µs for a usual file, and 10 to 60 ms for one of 500 KiB.
const robotsMemory = 32 << 20

func newRobotsKeeper(s *state.Store, r robotsReader) *robotsKeeper {
	return &robotsKeeper{store: s, hasher: s.Hasher(), reader: r, known: map[string]*RobotsAnswer{}}
}

// cached is an answer that is in memory and not too old, or nil.
func (k *robotsKeeper) cached(origin string, now time.Time) *RobotsAnswer {
	k.mu.RLock()
	a := k.known[origin]
	k.mu.RUnlock()
	if a == nil || now.After(a.Expires) {
		return nil
	}
	return a
}

// lookup finds an answer in memory or in the store; nil if there is none that still counts.
func (k *robotsKeeper) lookup(ctx context.Context, origin string) (*RobotsAnswer, error) {
	if a := k.cached(origin, time.Now()); a != nil {
		return a, nil
	}
	fact, err := k.fact(ctx, origin)
	if err != nil || !isValidRobots(&fact) {
		return nil, err
	}
	return k.remember(&fact), nil
}

// isValidRobots reports whether a fact has an answer that still counts.
func isValidRobots(fact *frontier.OriginFact) bool {
	return fact.State != frontier.OriginUnknown && !time.Now().After(fact.Expires)
}

// fact is what the store knows of an origin, at least its name.
func (k *robotsKeeper) fact(ctx context.Context, origin string) (frontier.OriginFact, error) {
	host := k.hasher.HostID(mustCanonical(origin + "/").Host())
	fact, ok, err := k.store.Origin(ctx, host, origin)
	if !ok {
		fact = frontier.OriginFact{Host: host, Origin: origin}
	}
	return fact, err
}

// keep takes an answer into memory and into the store, as that of an origin.
func (k *robotsKeeper) keep(ctx context.Context, origin string, answer frontier.OriginFact) error {
	old, err := k.fact(ctx, origin)
	if err != nil {
		return err
	}
	answer.Host, answer.Origin, answer.SitemapsRequested = old.Host, origin, old.SitemapsRequested
	k.remember(&answer)
	return k.commit(answer)
}

func (k *robotsKeeper) commit(fact frontier.OriginFact) error {
	_, err := k.store.Commit(frontier.Record{Origins: []frontier.OriginFact{fact}})
	return err
}

// remember parses an answer and takes it into memory.
func (k *robotsKeeper) remember(fact *frontier.OriginFact) *RobotsAnswer {
	a := k.reader.answer(fact)
	k.mu.Lock()
	defer k.mu.Unlock()
	if old := k.known[fact.Origin]; old != nil {
		k.size -= old.size()
		delete(k.known, fact.Origin)
	}
	// The order of a map is as good as any to forget by: what is needed again comes back from the store.
	for name, old := range k.known {
		if k.size+a.size() <= robotsMemory {
			break
		}
		k.size -= old.size()
		delete(k.known, name)
	}
	k.known[fact.Origin] = a
	k.size += a.size()
	return a
}

func (a *RobotsAnswer) size() int {
	n := 200
	if a.Rules != nil {
		n += a.Rules.Size()
	}
	for _, s := range a.Sitemaps {
		n += len(s) + 16
	}
	return n
}
