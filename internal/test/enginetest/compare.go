package enginetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/cluster"
)

// Compare makes the same random calls, one after the other, to an engine and to its
// model. Every answer must be the same, but for times.
func Compare(t *testing.T, engine, model *Harness, steps int, seed uint64) {
	t.Logf("seed %d", seed)
	crawl := cluster.Crawl{ID: cluster.NewID(), Seed: seed, Identity: "url=1", Plan: []byte("plan"), MaxURLs: 30}
	crawl.Name = crawl.ID.String()
	pair := &pair{T: t, rng: rand.New(rand.NewPCG(seed, 1)), harness: [2]*Harness{engine, model}, crawl: crawl,
		pending: map[*node]*cluster.Batch{}}
	for _, h := range pair.harness {
		if err := h.Engine.Create(t.Context(), crawl, "start", "other"); err != nil {
			t.Fatal(err)
		}
	}
	const drift = cluster.Lease / 20
	began := time.Now()
	for range steps {
		// The model's clock stands still between two steps, so the engine's is set back by what they took.
		if passed := time.Since(began); passed > drift {
			engine.Advance(-passed)
			began = began.Add(passed)
		}
		pair.step()
		pair.same("Look", func(h *Harness) (any, error) {
			s, err := h.Engine.Look(t.Context(), crawl.ID, cluster.Known{})
			return withoutTimes(s), err
		})
	}
}

// A pair of engines, and what their clients know.
type pair struct {
	*testing.T
	rng     *rand.Rand
	harness [2]*Harness
	crawl   cluster.Crawl
	nodes   []*node
	pending map[*node]*cluster.Batch // sent, with an answer that was lost
}

// outcome is what a call returned, in a form that can be compared.
type outcome struct {
	value any
	err   string
}

// same makes a call to both engines and compares.
func (p *pair) same(call string, fn func(*Harness) (any, error)) (any, error) {
	p.Helper()
	var got [2]outcome
	var err error
	for i, h := range p.harness {
		got[i].value, err = fn(h)
		got[i].err = kind(err)
	}
	if !reflect.DeepEqual(got[0], got[1]) {
		p.Fatalf("%s: the engine returns\n%+v\nthe model\n%+v", call, got[0], got[1])
	}
	return got[1].value, err
}

// kind is the sentinel in an error; other errors are all the same.
func kind(err error) string {
	for _, known := range []error{cluster.ErrFenced, cluster.ErrRolledBack, cluster.ErrUnknown, cluster.ErrAway,
		cluster.ErrNoCrawl, cluster.ErrExists} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err != nil {
		return "another error"
	}
	return ""
}

// withoutTimes returns a snapshot as a text without what differs between two clocks.
func withoutTimes(s *cluster.Snapshot) string {
	if s == nil {
		return ""
	}
	alive := ""
	for i := range s.Members {
		m := &s.Members[i]
		alive += fmt.Sprint(m.Session, m.Machine, m.Name, m.Beats, m.Batch, m.Tally, s.Alive(m),
			s.Now.Sub(m.Since) >= cluster.Lease, "\n")
	}
	c := s.Crawl
	c.Created, c.Used, c.Begun.At, c.Begun.Used = time.Time{}, 0, time.Time{}, 0
	return alive + fmt.Sprintf("%+v %+v %+v %d %q %d", c, s.Parts[:contended+1], s.Tokens, s.Waiting, s.Scope, s.Scopes)
}

func (p *pair) step() {
	ctx := p.Context()
	if len(p.nodes) < 2 || p.rng.IntN(25) == 0 {
		k := &checker{T: p.T, crawl: p.crawl}
		n := k.node()
		p.nodes = append(p.nodes, n)
		p.same("Join", func(h *Harness) (any, error) { return nil, h.Engine.Join(ctx, n.session) })
		return
	}
	n := p.nodes[p.rng.IntN(min(len(p.nodes), 4))+max(0, len(p.nodes)-4)]
	switch r := p.rng.IntN(20); {
	case r < 3:
		p.same("Beat", func(h *Harness) (any, error) {
			s, err := h.Engine.Beat(ctx, n.session, cluster.Known{Plan: 1})
			return withoutTimes(s), err
		})
	case r < 5:
		// Far from the edges of a lease, because the two clocks differ by what the calls take.
		d := []time.Duration{cluster.Lease * 2 / 3, cluster.Lease * 3}[p.rng.IntN(2)]
		for _, h := range p.harness {
			h.Advance(d)
		}
	case r < 8:
		p.claim(n)
	case r < 9 && p.rng.IntN(4) == 0:
		p.same("Leave", func(h *Harness) (any, error) { return nil, h.Engine.Leave(ctx, n.session) })
	case r < 12:
		c := p.change(n)
		done, _ := p.same(fmt.Sprintf("Change %+v", c), func(h *Harness) (any,
			error) {
			return h.Engine.Change(ctx, n.session, c)
		})
		n.changed(c, done.(bool))
	case r < 13:
		part := uint8(p.rng.IntN(contended))
		after := n.heads[part]
		p.same("Read", func(h *Harness) (any, error) {
			rows, err := h.Engine.Read(ctx, p.crawl.ID, part, after, 50)
			return fmt.Sprintf("%+v", rows), err
		})
	default:
		p.commit(n)
	}
}

func (p *pair) claim(n *node) {
	var parts []uint8
	for range 3 {
		parts = append(parts, uint8(p.rng.IntN(contended)))
	}
	_, err := p.same("Claim", func(h *Harness) (any, error) {
		list, err := h.Engine.Claim(p.Context(), n.session, parts)
		for i := range list {
			if !list[i].LastBeat.IsZero() {
				list[i].LastBeat = time.Unix(1, 0)
			}
		}
		return fmt.Sprintf("%+v", list), err
	})
	if err != nil {
		return
	}
	list, err := p.harness[1].Engine.Claim(p.Context(), n.session, parts)
	if err != nil {
		p.Fatal(err)
	}
	n.learn(list)
}

func (p *pair) change(n *node) cluster.Change {
	rng := p.rng
	states := []cluster.State{cluster.Running, cluster.Running, cluster.Paused, cluster.Finished}
	part := uint8(rng.IntN(contended))
	switch rng.IntN(5) {
	case 0:
		return cluster.SetState{From: states[rng.IntN(4)], To: states[rng.IntN(4)], Reason: fmt.Sprint(rng.IntN(2)),
			NewRun: rng.IntN(2) == 0, If: cluster.Condition(rng.IntN(3))}
	case 1:
		return cluster.SetPlan{Version: uint64(1 + rng.IntN(4)), Plan: fmt.Append(nil, rng.IntN(2)),
			MaxURLs: uint64(10 * rng.IntN(3))}
	case 2:
		from := uint32(rng.IntN(3))
		return cluster.RaiseLevel{From: from, To: from + 1}
	case 3:
		return cluster.Grant{Partition: part, Epoch: n.epochs[part], From: uint64(rng.IntN(3)),
			To: uint64(rng.IntN(20))}
	default:
		return cluster.TakeToken{Name: []string{"start", "other", "more"}[rng.IntN(3)]}
	}
}

// commit sends a new batch, or the last one again.
func (p *pair) commit(n *node) {
	rng := p.rng
	b := p.pending[n]
	if b == nil {
		b = p.batch(n)
	}
	if rng.IntN(5) == 0 && p.accepts(n, b) {
		done := rng.IntN(2) == 0
		for _, h := range p.harness {
			h.Lose(done)
		}
	}
	_, err := p.same(fmt.Sprintf("Commit %+v", b), func(h *Harness) (any, error) {
		return nil,
			h.Engine.Commit(p.Context(), n.session, b)
	})
	switch delete(p.pending, n); {
	case errors.Is(err, cluster.ErrUnknown):
		p.pending[n] = b
	case err == nil:
		n.committed(b)
	}
}

// accepts reports whether the model would commit a batch. One that is refused can be
// refused before its answer is lost.
func (p *pair) accepts(n *node, b *cluster.Batch) bool {
	model := p.harness[1]
	restore := model.Save()
	defer restore()
	return model.Engine.Commit(p.Context(), n.session, b) == nil
}

func (p *pair) batch(n *node) *cluster.Batch {
	rng := p.rng
	b := &cluster.Batch{Number: n.number + 1}
	var list []cluster.Handover
	_, _ = p.same("Inbox", func(h *Harness) (any, error) {
		var err error
		list, err = h.Engine.Inbox(p.Context(), n.session, nil, 40)
		return fmt.Sprintf("%+v", list), err
	})
	for part := range uint8(contended) {
		if n.epochs[part] > 0 && rng.IntN(8) > 0 {
			w := n.write(part, fmt.Appendf(nil, "row %d", rng.IntN(1000)))
			w.Status = cluster.PartStatus{Idle: rng.IntN(8) > 0, Busy: uint32(rng.IntN(8) / 7),
				Least: uint32(rng.IntN(4)), Counted: uint64(rng.IntN(20)), Counts: number(rng.Uint64())}
			w.Close = rng.IntN(8) == 0
			b.Writes = append(b.Writes, w)
			for _, h := range list {
				if h.To == part {
					b.Received = append(b.Received, frontier.Mark{Partition: part, Session: h.From, Batch: h.Batch})
				}
			}
		}
		if rng.IntN(5) == 0 {
			b.Sent = append(b.Sent, cluster.Sent{To: part, Body: fmt.Appendf(nil, "item %d", rng.IntN(1000))})
		}
	}
	switch rng.IntN(8) {
	case 0:
		b.Hold = []string{"more"}
	case 1:
		b.Release = []string{[]string{"start", "other", "more"}[rng.IntN(3)]}
	case 2:
		b.Scope = []string{fmt.Sprint("scope ", rng.IntN(1000))}
	}
	return b
}
