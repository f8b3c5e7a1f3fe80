package crawl

import (
	"context"
	"encoding/binary"
	"errors"
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
)

// RobotsAnswer is what an origin's robots.txt says to us.
type RobotsAnswer struct {
	Rules     *robots.Rules
	Sitemaps  []string
	FetchedAt time.Time
	Expires   time.Time
	// Unknown means that robots.txt could not be fetched: what is allowed then is an assumption, and marked so.
	Unknown bool
	// Why says why it could not be fetched, or that there is none: a status or an error. It is not stored.
	Why string
	// Silent means that there was no answer at all, so that asking the host for more is in vain for now. It is not stored.
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
	u, err := urlnorm.Parse(origin + "/robots.txt")
	if err != nil {
		return unknownRobots(strict, err.Error()), fmt.Errorf("robots.txt of %s: %w", origin, err)
	}
	ask := robotsAsk{token: token, strict: strict}
	for hop := 0; ; hop++ {
		a, next, _, err := ask.once(ctx, f, u, hop, nil)
		if a != nil {
			return a, err
		}
		u = next
	}
}

// unknownRobots is the answer where robots.txt could not be fetched.
func unknownRobots(strict bool, why string) *RobotsAnswer {
	now := time.Now()
	return &RobotsAnswer{Unknown: true, Why: why, Deny: strict, FetchedAt: now, Expires: now.Add(robotsRetry)}
}

// robotsAsk is how robots.txt is asked for.
type robotsAsk struct {
	token  string
	strict bool // what cannot be fetched disallows everything
}

// once makes one request. It returns an answer, or where to ask next; the response is closed, and nil with an error. Hop counts the redirects before.
func (r robotsAsk) once(ctx context.Context, f Fetcher, u urlnorm.URL, hop int, wire fetch.Wire) (*RobotsAnswer, urlnorm.URL, *fetch.Response, error) {
	resp, err := f.Do(ctx, fetch.Request{URL: u, Mode: fetch.Text, Timeout: robotsTimeout, MaxBody: robots.MaxSize + 1, Wire: wire, NewConn: true})
	if err != nil {
		a := unknownRobots(r.strict, errorText(err))
		a.Silent = resp == nil
		resp.Close() // what the host answered before it went wrong, or nil
		return a, urlnorm.URL{}, nil, err
	}
	defer resp.Close()
	now := time.Now()
	status := strings.TrimSpace(fmt.Sprint(resp.Status, " ", http.StatusText(resp.Status)))
	a := &RobotsAnswer{Why: status, FetchedAt: now, Expires: now.Add(robotsTTL)}
	switch {
	case resp.OK():
		file := robots.Parse(resp.Body)
		a.Rules, a.Sitemaps = file.Agent(r.token), file.Sitemaps()
	case resp.Status >= 300 && resp.Status < 400 && resp.Location != "" && hop < robotsHops:
		if next, err := u.Resolve(resp.Location); err == nil {
			return nil, next, resp, nil
		} // else it leads nowhere: as if there were none
	case resp.Status == 429 || resp.Status >= 500:
		a = unknownRobots(r.strict, status)
	}
	// Any other 4xx, and a redirect too many: there is none, so everything is allowed.
	return a, urlnorm.URL{}, resp, nil
}

// robotsKeeper remembers what origins answered: a bounded number in memory, all of them in the store.
type robotsKeeper struct {
	store  *state.Store
	hasher frontier.Hasher

	mu    sync.RWMutex
	known map[string]*RobotsAnswer // guarded by mu; by origin
	size  int                      // guarded by mu; bytes, about
	hops  map[string]*robotsHop    // guarded by mu; by origin: where a redirect led that was not followed to its end yet
}

// robotsMemory bounds what the keeper holds in memory.
const robotsMemory = 32 << 20

func newRobotsKeeper(s *state.Store) *robotsKeeper {
	return &robotsKeeper{store: s, hasher: s.Hasher(), known: map[string]*RobotsAnswer{}, hops: map[string]*robotsHop{}}
}

// cached is an answer that is at hand and not too old, or nil.
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
	if err != nil || fact.State == frontier.OriginUnknown || time.Now().After(fact.Expires) {
		return nil, err
	}
	a, err := decodeRobots(fact)
	if err != nil {
		return nil, err
	}
	k.remember(origin, a)
	return a, nil
}

// keep takes an answer into memory and into the store.
func (k *robotsKeeper) keep(ctx context.Context, origin string, a *RobotsAnswer) error {
	fact, err := k.fact(ctx, origin)
	if err != nil {
		return err
	}
	if fact.Body, err = encodeRobots(a); err != nil {
		return err
	}
	fact.State, fact.Fetched, fact.Expires = a.state(), a.FetchedAt, a.Expires
	k.remember(origin, a)
	return k.commit(fact)
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

func (k *robotsKeeper) commit(fact frontier.OriginFact) error {
	_, err := k.store.Commit(frontier.Record{Origins: []frontier.OriginFact{fact}})
	return err
}

// sitemapsRequested reports whether an origin's sitemaps were asked for, now or in an earlier run.
func (k *robotsKeeper) sitemapsRequested(ctx context.Context, origin string) (bool, error) {
	fact, err := k.fact(ctx, origin)
	return fact.SitemapsRequested, err
}

func (k *robotsKeeper) setSitemapsRequested(ctx context.Context, origin string) error {
	fact, err := k.fact(ctx, origin)
	if err != nil {
		return err
	}
	fact.SitemapsRequested = true
	return k.commit(fact)
}

func (k *robotsKeeper) remember(origin string, a *RobotsAnswer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.hops, origin)
	if old := k.known[origin]; old != nil {
		k.size -= old.size()
	}
	// The order of a map is as good as any to forget by: what is needed again comes back from the store.
	for name, old := range k.known {
		if k.size+a.size() <= robotsMemory {
			break
		}
		k.size -= old.size()
		delete(k.known, name)
	}
	k.known[origin] = a
	k.size += a.size()
}

// state is what kind of answer it is.
func (a *RobotsAnswer) state() frontier.OriginState {
	switch {
	case a.Unknown:
		return frontier.OriginFailed
	case a.Rules != nil:
		return frontier.OriginAnswered
	}
	return frontier.OriginNone
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

// The stored form: a version, flags, the sitemaps, and the rules in their own form.
const (
	robotsForm        = 1
	robotsFlagUnknown = 1
	robotsFlagDeny    = 2
	robotsFlagRules   = 4
	maxSitemapLines   = 1000
)

var errRobotsForm = errors.New("stored robots.txt is of an unknown form")

func encodeRobots(a *RobotsAnswer) ([]byte, error) {
	flags := byte(0)
	if a.Unknown {
		flags |= robotsFlagUnknown
	}
	if a.Deny {
		flags |= robotsFlagDeny
	}
	if a.Rules != nil {
		flags |= robotsFlagRules
	}
	sitemaps := a.Sitemaps[:min(len(a.Sitemaps), maxSitemapLines)]
	b := binary.AppendUvarint([]byte{robotsForm, flags}, uint64(len(sitemaps)))
	for _, s := range sitemaps {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	if a.Rules == nil {
		return b, nil
	}
	return a.Rules.AppendBinary(b)
}

func decodeRobots(fact frontier.OriginFact) (*RobotsAnswer, error) {
	b := fact.Body
	if len(b) < 3 || b[0] != robotsForm {
		return nil, errRobotsForm
	}
	flags := b[1]
	a := &RobotsAnswer{FetchedAt: fact.Fetched, Expires: fact.Expires, Unknown: flags&robotsFlagUnknown != 0, Deny: flags&robotsFlagDeny != 0}
	n, size := binary.Uvarint(b[2:])
	if size <= 0 || n > maxSitemapLines {
		return nil, errRobotsForm
	}
	b = b[2+size:]
	for range n {
		length, size := binary.Uvarint(b)
		if size <= 0 || length > uint64(len(b)-size) {
			return nil, errRobotsForm
		}
		a.Sitemaps = append(a.Sitemaps, string(b[size:size+int(length)]))
		b = b[size+int(length):]
	}
	if flags&robotsFlagRules == 0 {
		return a, nil
	}
	var err error
	a.Rules, err = robots.UnmarshalRules(b)
	return a, err
}
