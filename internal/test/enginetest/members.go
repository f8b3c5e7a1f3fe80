package enginetest

import (
	"slices"
	"time"

	"github.com/mapwright/mapwright/internal/cluster"
)

func testCatalog(k *checker) {
	ctx := k.Context()
	_, err := k.Engine.Look(ctx, k.crawl.ID, cluster.Known{})
	k.fails(err, cluster.ErrNoCrawl)
	k.fails(k.Engine.Join(ctx, k.node().session), cluster.ErrNoCrawl)
	k.ok(k.Engine.Delete(ctx, k.crawl.ID))

	k.create("a", "b")
	k.create("a", "b")
	other := k.crawl
	other.ID = cluster.NewID()
	k.fails(k.Engine.Create(ctx, other), cluster.ErrExists)
	other = k.crawl
	other.Name += " too"
	k.fails(k.Engine.Create(ctx, other), cluster.ErrExists)

	find := func() *cluster.Crawl {
		list, err := k.Engine.List(ctx)
		k.ok(err)
		if i := slices.IndexFunc(list, func(c cluster.Crawl) bool { return c.ID == k.crawl.ID }); i >= 0 {
			return &list[i]
		}
		return nil
	}
	listed := find()
	if listed == nil || listed.Name != k.crawl.Name || listed.Plan != nil || listed.Seed != k.crawl.Seed {
		k.Fatalf("listed as %+v", listed)
	}
	s := k.look()
	c := s.Crawl
	if c.Name != k.crawl.Name || c.Seed != k.crawl.Seed || c.Identity != "url=1" || string(c.Plan) != "plan" ||
		c.PlanVersion != 1 || c.State != cluster.Running || c.Run != 1 || c.MaxURLs != 10 {
		k.Fatalf("made as %+v", c)
	}
	if age := s.Now.Sub(c.Created); age < 0 || len(s.Tokens) != 2 || s.Tokens[0] != (cluster.Token{Name: "a"}) {
		k.Fatalf("made %v ago with tokens %v", age, s.Tokens)
	}
	for p := range s.Parts {
		if part := &s.Parts[p]; !part.Status.Idle || part.Status.Least != cluster.NoDepth || part.Epoch != 0 ||
			part.Head != (cluster.Place{}) || part.Owner != (cluster.SessionID{}) {
			k.Fatalf("partition %d: %+v", p, part)
		}
	}

	n := k.join()
	n.claim(1)
	b := n.batch(1)
	b.Sent = []cluster.Sent{{To: 2, Body: []byte("x")}}
	n.commit(b)
	k.ok(k.Engine.Delete(ctx, k.crawl.ID))
	if find() != nil {
		k.Fatal("a deleted crawl is listed")
	}
	n.over(cluster.ErrNoCrawl)
	n.fails(n.tryCommit(n.batch(1)), cluster.ErrNoCrawl)
	_, err = k.Engine.Read(ctx, k.crawl.ID, 1, cluster.Place{}, 1)
	k.fails(err, cluster.ErrNoCrawl)
	_, err = k.Engine.Inbox(ctx, n.session, nil, 1)
	k.fails(err, cluster.ErrNoCrawl)
	k.crawl.ID = cluster.NewID() // the name is free again
	k.create()
	equal(k, "tokens", len(k.look().Tokens), 0)
}

func testSessions(k *checker) {
	k.create()
	ctx := k.Context()
	k.node().over(cluster.ErrRolledBack) // a session that never joined, or whose joining was lost
	a, b := k.join(), k.join()
	k.ok(k.Engine.Join(ctx, a.session))
	s := a.beat()
	equal(k, "members", len(s.Members), 2)
	m := s.Member(a.session.ID)
	if m == nil || m.Machine != a.session.Machine || m.Name != "machine" || m.Beats != 2 || !s.Alive(m) ||
		m.Beat.Before(m.Joined) || !m.Since.Equal(m.Joined) {
		k.Fatalf("member is %+v", m)
	}
	if !slices.IsSortedFunc(s.Members, func(a, b cluster.Member) int {
		return slices.Compare(a.Session[:],
			b.Session[:])
	}) {
		k.Fatalf("members are not in order: %v", s.Members)
	}
	if m.Tally != (cluster.Tally{}) {
		k.Fatalf("the tally of a session that has none is %+v", m.Tally)
	}
	k.Advance(cluster.Lease / 2)
	a.session.Tally = cluster.Tally{Takeovers: 1, Fenced: 2, Batch: 3 * time.Millisecond, Replaying: 4, RowsLeft: 5,
		Pages: 6}
	equal(k, "tally", a.beat().Member(a.session.ID).Tally, a.session.Tally)
	equal(k, "tally of the other", k.look().Member(b.session.ID).Tally, cluster.Tally{})
	k.Advance(cluster.Lease/2 + time.Second)
	s = k.look()
	if !s.Alive(s.Member(a.session.ID)) || s.Alive(s.Member(b.session.ID)) {
		k.Fatalf("at %v alive are %+v", s.Now, s.Members)
	}
	s = b.beat() // nothing was claimed of it
	if m := s.Member(b.session.ID); !s.Alive(m) || !m.Since.Equal(m.Beat) || m.Since.Equal(m.Joined) {
		k.Fatalf("after a gap: %+v", m)
	}
	a.session.Tally.Pages = 7 // since the last beat
	k.ok(k.Engine.Leave(ctx, a.session))
	k.ok(k.Engine.Leave(ctx, a.session))
	a.over(cluster.ErrFenced)
	k.fails(k.Engine.Join(ctx, a.session), cluster.ErrFenced)
	equal(k, "members", len(k.look().Members), 1)

	b.claim(1)
	k.Advance(cluster.Lease + time.Second)
	c := k.join()
	k.expireBut(c)
	c.claim(1) // which ends b
	k.ok(k.Engine.Leave(ctx, b.session))
	list, err := k.Engine.Sessions(ctx, k.crawl.ID)
	k.ok(err)
	if len(list) != 3 || list[0].Session != a.session.ID || list[1].Session != b.session.ID ||
		list[2].Session != c.session.ID {
		k.Fatalf("sessions are %+v", list)
	}
	equal(k, "tally at the end", list[0].Tally, a.session.Tally)
	for i, want := range []struct{ ended, left bool }{{true, true}, {true, false}, {false, false}} {
		equal(k, "has ended", list[i].Ended, want.ended)
		equal(k, "has left", list[i].Left, want.left)
	}
	_, err = k.Engine.Sessions(ctx, cluster.NewID())
	k.fails(err, cluster.ErrNoCrawl)
}

func testUsed(k *checker) {
	k.create()
	n := k.join()
	k.Advance(5 * time.Second)
	used := n.beat().Crawl.Used
	if used < 5*time.Second || used > 5*time.Second+cluster.Lease {
		k.Fatalf("used %v after 5 s", used)
	}
	k.Advance(time.Hour) // no machine was there
	if more := n.beat().Crawl.Used - used; more >= time.Minute {
		k.Fatalf("used %v more without a machine", more)
	}
	k.Advance(3 * time.Second)
	if used = k.look().Crawl.Used; used < 8*time.Second {
		k.Fatalf("used %v after 8 s, of which 3 came after the last beat", used)
	}
	if !n.change(cluster.SetState{From: cluster.Running, To: cluster.Paused}) {
		k.Fatal("not paused")
	}
	k.Advance(cluster.Lease / 2)
	if got := n.beat().Crawl.Used; got < used || got-used >= cluster.Lease/2 {
		k.Fatalf("used %v while paused", got-used)
	}
	if !n.change(cluster.SetState{From: cluster.Paused, To: cluster.Running, NewRun: true}) {
		k.Fatal("not resumed")
	}
	if c := k.look().Crawl; c.Begun.Used < used || c.Begun.Used > c.Used || c.Begun.At.Before(c.Created) {
		k.Fatalf("used %v, and %v when the run began at %v; made at %v", c.Used, c.Begun.Used, c.Begun.At, c.Created)
	}
	k.ok(k.Engine.Leave(k.Context(), n.session))
	used = k.look().Crawl.Used
	k.Advance(5 * time.Second) // no machine is there
	equal(k, "used after all have left", k.look().Crawl.Used, used)
}

func testClaim(k *checker) {
	k.create()
	a, b := k.join(), k.join()
	got := a.claim(3, 7, 250)
	for i, p := range []uint8{3, 7, 250} {
		if c := got[i]; c.Partition != p || c.Epoch != 1 || c.Head != (cluster.Place{}) || c.Owner != a.session.ID ||
			!c.LastBeat.IsZero() {
			k.Fatalf("claimed %+v", c)
		}
	}
	again := a.claim(3, 7, 250)
	equal(k, "epoch of a repeated claim", again[0].Epoch, 1)
	equal(k, "claims of another's partitions", len(b.tryClaim(3, 7)), 0)
	if got := b.tryClaim(250, 9, 8, 8); len(got) != 2 || got[0].Partition != 8 || got[1].Partition != 9 {
		k.Fatalf("claimed %+v", got)
	}

	// In good order.
	closing := a.batch(3)
	closing.Writes[0].Close = true
	closing.Writes[0].Status.Counts = []byte("counts")
	a.commit(closing)
	c := b.claim(3)[0]
	if c.Epoch != 2 || c.Head != a.heads[3] || !c.LastBeat.IsZero() || string(c.Status.Counts) != "counts" {
		k.Fatalf("claimed %+v", c)
	}
	a.fails(a.tryCommit(a.batch(3)), cluster.ErrFenced)

	// A session that has left without closing.
	beat := a.beat().Member(a.session.ID).Beat
	k.ok(k.Engine.Leave(k.Context(), a.session))
	c = b.claim(7)[0]
	if c.Epoch != 2 || !c.LastBeat.Equal(beat) {
		k.Fatalf("claimed %+v, last beat was %v", c, beat)
	}
	// Its last beat is still known to an owner after the next.
	closing = b.batch(7)
	closing.Writes[0].Close = true
	b.commit(closing)
	if c := k.join().claim(7)[0]; c.Epoch != 3 || !c.LastBeat.Equal(beat) {
		k.Fatalf("claimed %+v, last beat was %v", c, beat)
	}
}

func testExpiry(k *checker) {
	k.create()
	a, b := k.join(), k.join()
	a.claim(1, 2)
	a.commit(a.batch(1, 2))
	a.beat()
	k.Advance(cluster.Lease / 2)
	b.beat()
	late := k.join()
	equal(k, "claims within the lease", len(b.tryClaim(1, 2)), 0)
	k.Advance(cluster.Lease/2 + time.Second)
	equal(k, "claims by a session younger than a lease", len(late.tryClaim(1, 2)), 0)
	beat := k.look().Member(a.session.ID).Beat
	c := b.claim(1)[0]
	if c.Epoch != 2 || c.Head != a.heads[1] || !c.LastBeat.Equal(beat) {
		k.Fatalf("claimed %+v, last beat was %v", c, beat)
	}
	a.over(cluster.ErrFenced) // of partition 2 nothing was claimed
	a.fails(a.tryCommit(a.batch(2)), cluster.ErrFenced)
	late.claim(2) // its owner has ended
	b.commit(b.batch(1))
	equal(k, "rows", len(k.log(1)), 2)
}

func testAway(k *checker) {
	k.create()
	a, b := k.join(), k.join()
	a.claim(1)
	b.claim(2)
	k.Advance(time.Minute)
	a.beat()
	equal(k, "claims right after the pause", len(a.tryClaim(2)), 0)
	b.beat()
	b.commit(b.batch(2))
	// Only b dies, and a has a whole lease of beats then.
	k.expireBut(a)
	a.claim(2)
	b.over(cluster.ErrFenced)
}
