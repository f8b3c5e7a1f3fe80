package crawl

import (
	"context"
	"encoding/binary"
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

// An extension is the value of factExtends: the hosts of start URLs that led there, up to maxExtendedBy. The fact is in
// the partition of the first. Early versions did not record the hosts; what they recorded is never withdrawn.
type extension []weburl.HostID

const maxExtendedBy = 1000

func extensionOf(value []byte) extension {
	var e extension
	for ; len(value) >= 8; value = value[8:] {
		e = append(e, weburl.HostID(binary.BigEndian.Uint64(value)))
	}
	return e
}

func (e extension) bytes() []byte {
	var b []byte
	for _, host := range e {
		b = binary.BigEndian.AppendUint64(b, uint64(host))
	}
	return b
}

// add adds a host, and reports whether it was new.
func (e *extension) add(host weburl.HostID) bool {
	if len(*e) >= maxExtendedBy || slices.Contains(*e, host) {
		return false
	}
	*e = append(*e, host)
	return true
}

func (e extension) partition() uint8 { return e[0].Partition() }

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
func (w *worker) extendScope(ctx context.Context, start, target weburl.URL) {
	if scope.ExceedsLimit(target) || !w.scope.Permits(target) || w.scope.ContainsAtFirst(target) {
		return
	}
	w.extending.Lock()
	defer w.extending.Unlock()
	first, wider := w.scope.Extend(target)
	name := factExtends + first.String()
	e := extensionOf(w.store.Fact(name))
	known := !e.add(w.hasher.HostID(start.Host()))
	if !wider && known {
		return
	}
	var err error
	facts := []frontier.CrawlFact{{Partition: e.partition(), Name: name, Value: e.bytes()}}
	if wider && w.cluster != nil { // other machines are told before it is recorded
		w.cluster.session.Journal().Extend(target.String())
	} else if wider {
		var fact frontier.CrawlFact
		fact, err = w.scope.History().Fact()
		facts = append(facts, fact)
	}
	if err == nil {
		_, err = w.store.Commit(frontier.Record{Facts: facts})
	}
	if wider {
		w.frontier.AskRobotsAgain()
	}
	if err == nil && wider && w.settings.IgnoreRobots && w.cluster == nil {
		err = w.requestSitemaps(ctx, target.Origin())
	}
	if err != nil && ctx.Err() == nil {
		w.log.Error("cannot record that a redirect extends the scope", "target", target.String(), "error", err)
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

// withdrawals are the facts that take out of the scope what redirects of start URLs brought into it, if none leads
// there by what is known before a recrawl. One that failed or was forbidden may lead there again.
func withdrawals(ctx context.Context, store *state.Store, settings *config.Settings,
	starts []datadir.Start) ([]frontier.CrawlFact, error) {
	extended := extensions(store)
	maps.DeleteFunc(extended, func(_ weburl.URL, by extension) bool { return len(by) == 0 })
	if len(extended) == 0 {
		return nil, nil
	}
	led, err := scope.New(settings, urlsOf(starts))
	if err != nil {
		return nil, err
	}
	hasher := store.Hasher()
	for i := range starts {
		at, bare := starts[i].URL, starts[i].Bare
		for range scope.MaxHops + 2 {
			p, ok, err := store.Page(ctx, hasher.Key(at))
			if err != nil {
				return nil, err
			}
			target := ""
			if ok && p.Finish != nil {
				target = p.Finish.RedirectTo
			}
			if target == "" && !hasAnswered(p.Finish) {
				host := hasher.HostID(at.Host())
				maps.DeleteFunc(extended, func(_ weburl.URL, by extension) bool { return slices.Contains(by, host) })
			}
			if target == "" && bare && at.Scheme() == "https" {
				target, bare = "http"+at.String()[len("https"):], false // see plainHTTP
			}
			if at, err = weburl.Parse(target); target == "" || err != nil {
				break
			}
			led.Extend(at)
		}
	}
	var facts []frontier.CrawlFact
	for target, by := range extended {
		if !led.Contains(target) {
			facts = append(facts, frontier.CrawlFact{Partition: by.partition(), Name: factExtends + target.String()})
		}
	}
	return facts, nil
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
