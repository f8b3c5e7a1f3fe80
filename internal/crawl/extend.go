package crawl

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// An extension is the value of factExtends. The fact is in the partition of the first host. Early versions recorded
// neither the edition nor the hosts; what they recorded is never withdrawn.
type extension struct {
	edition uint64          // of the rules, which it began; zero if the target belonged to the scope already
	by      []weburl.HostID // hosts of start URLs that led there, up to maxExtendedBy
}

const maxExtendedBy = 1000

func extensionOf(value []byte) extension {
	var e extension
	for i := 0; len(value) >= 8; i, value = i+1, value[8:] {
		if n := binary.BigEndian.Uint64(value); i == 0 {
			e.edition = n
		} else {
			e.by = append(e.by, weburl.HostID(n))
		}
	}
	return e
}

func (e *extension) bytes() []byte {
	b := binary.BigEndian.AppendUint64(nil, e.edition)
	for _, host := range e.by {
		b = binary.BigEndian.AppendUint64(b, uint64(host))
	}
	return b
}

// add adds a host, and reports whether it was new.
func (e *extension) add(host weburl.HostID) bool {
	if len(e.by) >= maxExtendedBy || slices.Contains(e.by, host) {
		return false
	}
	e.by = append(e.by, host)
	return true
}

// fact is the extension by a target as it is stored.
func (e *extension) fact(target weburl.URL) frontier.CrawlFact {
	return frontier.CrawlFact{Partition: e.by[0].Partition(), Name: factExtends + target.String(), Value: e.bytes()}
}

// extensions are the targets of redirects of start URLs that belong to the scope, by the facts of the crawl.
func extensions(store *state.Store) map[weburl.URL]extension {
	all := map[weburl.URL]extension{}
	for name, value := range store.FactsLike(factExtends) {
		if target, err := weburl.Parse(name[len(factExtends):]); err == nil {
			all[target] = extensionOf(value)
		}
	}
	return all
}

// extendScope takes the target of a start's redirect into the scope, and records that. What was judged before by the
// narrower scope is judged again: robots.txt with the next lease of its origin, and pages and sitemaps when everything
// queued is visited; see sweepAgain.
func (r *run) extendScope(ctx context.Context, start, target weburl.URL) {
	if scope.ExceedsLimit(target) || !r.scope.Permits(target) || r.scope.ContainsAtFirst(target) {
		return
	}
	r.extending.Lock()
	defer r.extending.Unlock()
	isNew := !r.scope.IsStart(target.Host())
	first, wider := r.scope.First(target), !r.scope.Contains(target)
	e := extensionOf(r.store.Fact(factExtends + first.String()))
	if added := e.add(r.store.Hasher().HostID(start.Host())); !added && !isNew && !wider {
		return
	}
	if wider {
		e.edition = r.scope.History().Edition + 1
	}
	if wider && r.cluster != nil { // other machines are told before it is recorded
		r.cluster.session.Journal().Extend(target.String())
	}
	_, err := r.store.Commit(frontier.Record{Facts: []frontier.CrawlFact{e.fact(first)}})
	r.scope.Extend(target) // after that pages are recorded with the edition
	if isNew || wider {
		r.frontier.AskRobotsAgain()
		if err == nil && r.settings.IgnoreRobots && r.cluster == nil {
			err = r.requestSitemaps(ctx, target.Origin())
		}
	}
	if err != nil && ctx.Err() == nil {
		r.log.Error("cannot record that a redirect extends the scope", "target", target.String(), "error", err)
	}
}

// newScope makes the scope of the start URLs, and of what their redirects added in earlier runs.
func newScope(s *config.Settings, starts []datadir.Start, store *state.Store) (*scope.Scope, error) {
	return scope.New(s, urlsOf(starts), slices.Collect(maps.Keys(extensions(store)))...)
}

func urlsOf(starts []datadir.Start) []weburl.URL {
	urls := make([]weburl.URL, len(starts))
	for i := range starts {
		urls[i] = starts[i].URL
	}
	return urls
}

// walk follows the redirects of start URLs as they are recorded. It calls step with each URL that a start URL leads to,
// and failed for URLs that did not answer, so that they may still lead anywhere. The store must have applied all
// records.
func walk(ctx context.Context, store *state.Store, starts []datadir.Start, step func(start, to weburl.URL),
	failed func(at weburl.URL)) error {
	hasher := store.Hasher()
	for i := range starts {
		at := starts[i].URL
		for range scope.MaxHops {
			p, ok, err := store.Page(ctx, hasher.Key(at))
			if err != nil {
				return fmt.Errorf("find out where the start URLs lead: %w", err)
			}
			target := ""
			if ok && p.Finish != nil {
				target = p.Finish.RedirectTo
			}
			to, err := weburl.Parse(target)
			if http, is := standsForHTTP(&starts[i], p.Finish); target == "" && at == starts[i].URL && is {
				to, err = http, nil
			} else if target == "" && !hasAnswered(p.Finish) {
				failed(at)
			}
			if err != nil {
				break
			}
			step(starts[i].URL, to)
			at = to
		}
	}
	return nil
}

// extendByStarts follows the redirects of start URLs to their ends, if that may lead further than before: a page on the
// way may have been visited before it was known that a start URL leads there. The error of a context that has ended is
// not returned.
func (r *run) extendByStarts(ctx context.Context) error {
	if !r.unfollowed.Swap(false) {
		return nil
	}
	err := r.store.Flush(ctx)
	if err == nil {
		err = r.followStarts(ctx, func(start, to weburl.URL) { r.extendScope(ctx, start, to) })
	}
	if ctx.Err() != nil {
		r.unfollowed.Store(true)
		return nil
	}
	return err
}

// followStarts follows the redirects of start URLs to their ends. With a depth limit it notes what they lead to: such a
// page has depth 0, even if a link found it first. The frontier knows that only during one run.
func (r *run) followStarts(ctx context.Context, step func(start, to weburl.URL)) error {
	ledTo, hasher := map[weburl.Key]bool{}, r.store.Hasher()
	err := walk(ctx, r.store, r.starts, func(start, to weburl.URL) {
		if r.settings.MaxDepth >= 0 {
			ledTo[hasher.Key(to)] = true
		}
		step(start, to)
	}, func(weburl.URL) {})
	if err == nil {
		r.ledTo.Store(&ledTo)
	}
	return err
}

// isLedTo reports whether redirects of start URLs lead to a page, as far as followStarts has found.
func (r *run) isLedTo(k weburl.Key) bool {
	ledTo := r.ledTo.Load()
	return ledTo != nil && (*ledTo)[k]
}

// withdrawals are the facts that take out of the scope what redirects of start URLs brought into it, if none leads
// there by what is known before a recrawl. One that failed or was forbidden may lead there again.
func withdrawals(ctx context.Context, store *state.Store, settings *config.Settings,
	starts []datadir.Start) ([]frontier.CrawlFact, error) {
	extended := extensions(store)
	maps.DeleteFunc(extended, func(_ weburl.URL, e extension) bool { return len(e.by) == 0 })
	if len(extended) == 0 {
		return nil, nil
	}
	led, err := scope.New(settings, urlsOf(starts))
	if err != nil {
		return nil, err
	}
	hasher, silent := store.Hasher(), map[weburl.HostID]bool{}
	err = walk(ctx, store, starts, func(_, to weburl.URL) { led.Extend(to) },
		func(at weburl.URL) { silent[hasher.HostID(at.Host())] = true })
	var facts []frontier.CrawlFact
	for target, e := range extended {
		mayLead := slices.ContainsFunc(e.by, func(host weburl.HostID) bool { return silent[host] })
		if !mayLead && !led.Contains(target) {
			gone := e.fact(target)
			gone.Value = nil
			facts = append(facts, gone)
		}
	}
	return facts, err
}

// standsForHTTP returns the http URL for which a start URL stands that was given without a scheme, if what became of it
// says that its host offers no https. See plainHTTP.
func standsForHTTP(start *datadir.Start, f *frontier.Finish) (http weburl.URL, is bool) {
	if !start.Bare || f == nil {
		return http, false
	}
	switch page.Outcome(f.Outcome) {
	case page.ConnectError, page.TLSError:
		return weburl.MustCanonical(start.PlainHTTP()), true
	}
	return http, false
}

// hasAnswered reports whether a page was found, or found to be gone, so that it leads to no other.
func hasAnswered(f *frontier.Finish) bool {
	if f == nil {
		return false
	}
	switch page.Outcome(f.Outcome) {
	case page.OK, page.RedirectLoop, page.TooLarge:
		return true
	}
	return f.Status == http.StatusNotFound || f.Status == http.StatusGone
}
