package crawl

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sync"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/state"
)

// store is state as the frontier wants it: the two do not know each other.
type store struct {
	*state.Store
	translations *sync.Pool // of *translation
}

var _ frontier.Store = store{}

// NewStore lets a frontier keep its records in a store, as a crawl does it. Only a crawl knows what to record of a URL that is
// finished: elsewhere links may be added and leased, and not be finished.
func NewStore(s *state.Store) frontier.Store { return newStore(s) }

func newStore(s *state.Store) store { return store{s, new(sync.Pool)} }

// Commit translates records. A link with a verdict is two facts, found and finished: the second follows in a record of its own,
// and if a crash comes between them the link is pending and will be judged again.
func (s store) Commit(recs ...frontier.Record) (uint64, error) {
	t, _ := s.translations.Get().(*translation)
	if t == nil {
		t = &translation{}
	}
	defer func() {
		t.reset()
		s.translations.Put(t)
	}()
	verdicts, err := t.translate(recs)
	if err != nil {
		return 0, err
	}
	// In one call, so that nobody who reads the queue can come between a link and its verdict.
	seq, err := s.Store.Commit(t.recs...)
	if err != nil {
		return 0, err
	}
	return seq - uint64(verdicts), nil
}

func storedLink(l *frontier.Link) state.Link {
	s := state.Link{
		Key: l.Key, URL: l.URL, Depth: l.Depth, Priority: l.Priority, Source: l.Source,
		Parent: l.Parent, DiscoveredAt: l.Discovered, LastMod: l.LastMod,
	}
	if l.Hops > 0 {
		s.Extra = []byte{l.Hops}
	}
	return s
}

func queuedLink(l *state.Link) frontier.Link {
	q := frontier.Link{Key: l.Key, URL: l.URL, Depth: l.Depth, Priority: l.Priority, Source: l.Source}
	if len(l.Extra) > 0 {
		q.Hops = l.Extra[0]
	}
	return q
}

func stateCursor(c frontier.Cursor) state.Cursor {
	return state.Cursor{Priority: c.Priority, Seq: c.Seq, Index: c.Index}
}

func frontierCursor(c state.Cursor) frontier.Cursor {
	return frontier.Cursor{Priority: c.Priority, Seq: c.Seq, Index: c.Index}
}

// Pending translates links on their way back.
func (s store) Pending(ctx context.Context, host frontier.HostID, after frontier.Cursor, n int) ([]frontier.Link, frontier.Cursor, error) {
	links, next, err := s.Store.Pending(ctx, host, stateCursor(after), n)
	if err != nil {
		return nil, after, err
	}
	out := make([]frontier.Link, len(links))
	for i := range links {
		out[i] = queuedLink(&links[i].Link)
		out[i].At = frontierCursor(links[i].At)
	}
	return out, frontierCursor(next), nil
}

// hostData is the part of a host's facts that the store keeps as bytes.
type hostData struct {
	Learned   pace.Learned
	Blocked   bool  `json:",omitempty"`
	Abandoned bool  `json:",omitempty"`
	Pages     int64 `json:",omitempty"`
}

func storedHost(h frontier.HostFact) (state.HostFact, error) {
	data, err := json.Marshal(hostData{h.Learned, h.Blocked, h.Abandoned, h.Pages})
	if err != nil {
		return state.HostFact{}, fmt.Errorf("encode facts of host %s: %w", h.Name, err)
	}
	return state.HostFact{Host: h.Host, Name: h.Name, Data: data}, nil
}

func hostFact(h state.HostFact) (frontier.HostFact, error) {
	var d hostData
	if len(h.Data) > 0 {
		if err := json.Unmarshal(h.Data, &d); err != nil {
			return frontier.HostFact{}, fmt.Errorf("decode facts of host %s: %w", h.Name, err)
		}
	}
	return frontier.HostFact{Host: h.Host, Name: h.Name, Learned: d.Learned, Blocked: d.Blocked, Abandoned: d.Abandoned, Pages: d.Pages}, nil
}

// Host finds what was last committed about a host.
func (s store) Host(ctx context.Context, id frontier.HostID) (frontier.HostFact, bool, error) {
	h, ok, err := s.Store.Host(ctx, id)
	if err != nil || !ok {
		return frontier.HostFact{}, false, err
	}
	fact, err := hostFact(h)
	return fact, err == nil, err
}

// backlogs are the hosts that have something pending, for the frontier to resume with.
func (s store) backlogs(ctx context.Context) iter.Seq2[frontier.Backlog, error] {
	return func(yield func(frontier.Backlog, error) bool) {
		for b, err := range s.Store.PendingHosts(ctx) {
			if err != nil {
				yield(frontier.Backlog{}, err)
				return
			}
			fact, err := hostFact(b.Fact)
			if err != nil {
				yield(frontier.Backlog{}, err)
				return
			}
			out := frontier.Backlog{Fact: fact, Low: frontierCursor(b.Low)}
			for _, l := range b.Queues {
				out.Levels = append(out.Levels, frontier.LevelBacklog{Priority: l.Priority, Links: l.Links})
			}
			if !yield(out, nil) {
				return
			}
		}
	}
}
