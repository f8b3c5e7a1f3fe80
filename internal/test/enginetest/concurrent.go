package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/cluster"
)

const (
	clients     = 4
	clientSteps = 150
	contended   = 6 // partitions that they all want
)

// A logged row says what the client did, so that the log can be compared with it.
type logged struct {
	Session  cluster.SessionID
	Batch    uint64
	Received []uint64
}

// A sentBatch is what a client tried to commit.
type sentBatch struct {
	parts []uint8
	items []uint64
	acked bool
	doubt bool // an answer was lost, and then the session ended
}

type batchID struct {
	session cluster.SessionID
	number  uint64
}

// ledger is what all clients did.
type ledger struct {
	mu      sync.Mutex
	items   uint64                 // guarded by mu; number of the last item
	batches map[batchID]*sentBatch // guarded by mu
}

func (l *ledger) newItem() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.items++
	return l.items
}

func (l *ledger) add(id batchID, b *sentBatch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches[id] = b
}

// testConcurrent runs clients that claim partitions from each other, send items to each
// other's partitions, lose answers, expire and come back. Then the log must hold each
// batch whole or not at all as the clients were told, and each item must have been
// received once.
func testConcurrent(k *checker) {
	k.crawl.MaxURLs = 40
	k.create()
	l := &ledger{batches: map[batchID]*sentBatch{}}
	seed := rand.Uint64()
	k.Logf("seed %d", seed)
	errs := make([]error, clients)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			c := &client{k: k, ledger: l, rng: rand.New(rand.NewPCG(seed, uint64(i)))}
			errs[i] = c.run(k.Context())
		})
	}
	wg.Wait()
	k.ok(errors.Join(errs...))

	// One session takes everything and receives what is left.
	last := &client{k: k, ledger: l, rng: rand.New(rand.NewPCG(seed, clients))}
	k.ok(last.join(k.Context()))
	last.calm = true
	k.Advance(cluster.Lease / 2) // as expireBut, with calls that are made again
	k.ok(last.beat(k.Context()))
	k.Advance(cluster.Lease/2 + time.Second)
	k.ok(last.claim(k.Context()))
	equal(k, "partitions of the last session", len(last.node.epochs), contended)
	for k.look().Waiting > 0 {
		k.ok(last.commit(k.Context()))
	}
	l.check(k)
	s := k.look()
	var granted uint64
	for p := range s.Parts {
		granted += s.Parts[p].Granted
	}
	if granted != s.Crawl.Granted || granted > k.crawl.MaxURLs {
		k.Fatalf("partitions have grants of %d, the crawl says %d of %d", granted, s.Crawl.Granted, k.crawl.MaxURLs)
	}
}

// check compares the log with what the clients did.
func (l *ledger) check(k *checker) {
	found := map[batchID][]uint8{}
	received := map[uint64]int{}
	for p := range uint8(contended) {
		owners, epoch := map[uint64]cluster.SessionID{}, uint64(0)
		for _, row := range k.log(p) {
			var r logged
			k.ok(json.Unmarshal(row.Body, &r))
			if owner, ok := owners[row.Epoch]; row.Epoch < epoch || ok && owner != row.Session ||
				row.Session != r.Session {
				k.Fatalf("partition %d, row %d: session %v in epoch %d after epoch %d of %v", p, row.Seq, row.Session,
					row.Epoch, epoch, owner)
			}
			epoch, owners[row.Epoch] = row.Epoch, row.Session
			id := batchID{r.Session, r.Batch}
			found[id] = append(found[id], p)
			for _, item := range r.Received {
				received[item]++
			}
		}
	}
	acked := 0
	for id, b := range l.batches {
		got := found[id]
		delete(found, id)
		switch whole := slices.Equal(got, b.parts); {
		case b.acked && !whole:
			k.Errorf("batch %v was acknowledged for %v, the log has it in %v", id, b.parts, got)
		case !b.acked && !b.doubt && len(got) > 0:
			k.Errorf("batch %v was refused, the log has it in %v", id, got)
		case !whole && len(got) > 0:
			k.Errorf("batch %v for %v is in part in the log: %v", id, b.parts, got)
		}
		if b.acked {
			acked++
		}
		want := 0
		if len(got) > 0 {
			want = 1
		}
		for _, item := range b.items {
			if received[item] != want {
				k.Errorf("item %d was received %d times, want %d", item, received[item], want)
			}
			delete(received, item)
		}
	}
	if len(found) > 0 || len(received) > 0 {
		k.Errorf("the log has batches %v and items %v that no client sent", found, received)
	}
	if acked == 0 {
		k.Error("no batch was committed")
	}
}

// A client is one goroutine that joins as one session after another.
type client struct {
	k      *checker
	ledger *ledger
	rng    *rand.Rand
	calm   bool // it causes no faults
	node   *node
	known  []uint8 // partitions that it owns
}

func (c *client) run(ctx context.Context) error {
	if err := c.join(ctx); err != nil {
		return err
	}
	for range clientSteps {
		if err := c.step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) step(ctx context.Context) error {
	var err error
	switch n := c.rng.IntN(100); {
	case n < 10:
		err = c.claim(ctx)
	case n < 25:
		err = c.beat(ctx)
	case n < 28:
		c.k.Advance(time.Duration(c.rng.IntN(6)) * time.Second)
	case n < 29:
		if err = c.repeat(func() error { return c.k.Engine.Leave(ctx, c.node.session) }); err == nil {
			err = c.join(ctx)
		}
	case n < 39:
		err = c.grant(ctx)
	default:
		err = c.commit(ctx)
	}
	if errors.Is(err, cluster.ErrFenced) {
		return c.join(ctx)
	}
	return err
}

// repeat makes a call again while its answer is not known.
func (c *client) repeat(call func() error) error {
	for {
		if err := call(); !errors.Is(err, cluster.ErrAway) && !errors.Is(err, cluster.ErrUnknown) {
			return err
		}
	}
}

func (c *client) join(ctx context.Context) error {
	c.node, c.known = c.k.node(), nil
	return c.repeat(func() error { return c.k.Engine.Join(ctx, c.node.session) })
}

func (c *client) beat(ctx context.Context) error {
	return c.repeat(func() error {
		_, err := c.k.Engine.Beat(ctx, c.node.session, cluster.Known{})
		return err
	})
}

func (c *client) claim(ctx context.Context) error {
	var want []uint8
	for p := range uint8(contended) {
		if c.calm || c.rng.IntN(2) == 0 {
			want = append(want, p)
		}
	}
	var got []cluster.Claimed
	err := c.repeat(func() (err error) {
		got, err = c.k.Engine.Claim(ctx, c.node.session, want)
		return err
	})
	if err != nil {
		return err
	}
	c.node.learn(got)
	for _, p := range got {
		if !slices.Contains(c.known, p.Partition) {
			c.known = append(c.known, p.Partition)
		}
	}
	slices.Sort(c.known)
	return nil
}

func (c *client) grant(ctx context.Context) error {
	if len(c.known) == 0 {
		return nil
	}
	p := c.known[c.rng.IntN(len(c.known))]
	to := uint64(c.rng.IntN(20))
	change := cluster.Grant{Partition: p, Epoch: c.node.epochs[p], From: c.node.granted[p], To: to}
	return c.repeat(func() error {
		done, err := c.k.Engine.Change(ctx, c.node.session, change)
		c.node.changed(change, done)
		return err
	})
}

func ignoreAway(err error) error {
	if errors.Is(err, cluster.ErrAway) {
		return nil
	}
	return err
}

// commit writes to some partitions, receives what waits for them, and sends items.
func (c *client) commit(ctx context.Context) error {
	if len(c.known) == 0 {
		return nil
	}
	inbox, err := c.k.Engine.Inbox(ctx, c.node.session, nil, 1<<20)
	if err != nil {
		return ignoreAway(err)
	}
	b := &cluster.Batch{Number: c.node.number + 1}
	sent := &sentBatch{}
	for _, p := range c.known {
		if !c.calm && c.rng.IntN(3) == 0 {
			continue
		}
		row := logged{Session: c.node.session.ID, Batch: b.Number}
		marks := map[cluster.SessionID]uint64{}
		for i := range inbox {
			if h := &inbox[i]; h.To == p {
				var items []uint64
				if err := json.Unmarshal(h.Body, &items); err != nil {
					return err
				}
				row.Received = append(row.Received, items...)
				marks[h.From] = h.Batch
			}
		}
		for from, batch := range marks {
			b.Received = append(b.Received, frontier.Mark{Partition: p, Session: from, Batch: batch})
		}
		body, err := json.Marshal(row)
		if err != nil {
			return err
		}
		w := c.node.write(p, body)
		w.Close = !c.calm && c.rng.IntN(20) == 0
		b.Writes = append(b.Writes, w)
		sent.parts = append(sent.parts, p)
	}
	if len(b.Writes) == 0 {
		return nil
	}
	for p := range uint8(contended) {
		if c.calm || c.rng.IntN(3) > 0 {
			continue
		}
		items := []uint64{c.ledger.newItem(), c.ledger.newItem()}
		sent.items = append(sent.items, items...)
		body, err := json.Marshal(items)
		if err != nil {
			return err
		}
		b.Sent = append(b.Sent, cluster.Sent{To: p, Body: body})
	}
	c.ledger.add(batchID{c.node.session.ID, b.Number}, sent)
	if !c.calm && c.rng.IntN(10) == 0 {
		c.k.Lose(c.rng.IntN(2) == 0)
	}
	unknown := false
	err = c.repeat(func() error {
		err := c.node.tryCommit(b)
		unknown = unknown || errors.Is(err, cluster.ErrUnknown)
		return err
	})
	sent.acked, sent.doubt = err == nil, err != nil && unknown
	if err != nil {
		if !errors.Is(err, cluster.ErrFenced) {
			return fmt.Errorf("client: %w", err)
		}
		return err
	}
	for i := range b.Writes {
		if b.Writes[i].Close {
			c.known = slices.DeleteFunc(c.known, func(p uint8) bool { return p == b.Writes[i].Partition })
		}
	}
	return nil
}

// testDeleteWorking deletes a crawl while clients work on it. They are told that it is
// gone.
func testDeleteWorking(k *checker) {
	k.create()
	l := &ledger{batches: map[batchID]*sentBatch{}}
	errs := make([]error, clients)
	working := make(chan struct{}, clients)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			c := &client{k: k, ledger: l, rng: rand.New(rand.NewPCG(1, uint64(i)))}
			err := c.join(k.Context())
			if err == nil {
				err = c.claim(k.Context())
			}
			working <- struct{}{}
			for err == nil {
				err = c.step(k.Context())
			}
			errs[i] = err
		})
	}
	for range clients {
		<-working
	}
	err := k.Engine.Delete(k.Context(), k.crawl.ID)
	for errors.Is(err, cluster.ErrAway) {
		err = k.Engine.Delete(k.Context(), k.crawl.ID)
	}
	k.ok(err)
	wg.Wait()
	for _, err := range errs {
		k.fails(err, cluster.ErrNoCrawl)
	}
}
