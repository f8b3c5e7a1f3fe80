package enginetest

import (
	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/cluster"
)

var finish = cluster.SetState{From: cluster.Running, To: cluster.Finished, Reason: "complete", If: cluster.IfComplete}

// says compares what a condition says in a snapshot and in a change.
func (n *node) says(what string, want bool, snapshot func(*cluster.Snapshot) bool, c cluster.Change) {
	n.Helper()
	equal(n.checker, what+", by a snapshot", snapshot(n.look()), want)
	equal(n.checker, what+", by a change", n.change(c), want)
}

func testComplete(k *checker) {
	k.create("start")
	a, b := k.join(), k.join()
	a.claim(1)
	b.claim(2)
	complete := (*cluster.Snapshot).Complete
	a.says("complete with a token", false, complete, finish)
	if !a.change(cluster.TakeToken{Name: "start"}) {
		k.Fatal("token is not taken")
	}
	// The start URLs and the end of their source in one step.
	batch := a.batch(1)
	batch.Writes[0].Status = cluster.PartStatus{}
	batch.Release = []string{"start"}
	a.commit(batch)
	a.says("complete with a live partition", false, complete, finish)
	batch = a.batch(1)
	batch.Sent = []cluster.Sent{{To: 2, Body: []byte("link")}}
	a.commit(batch)
	a.says("complete with a hand-over", false, complete, finish)
	batch = b.batch(2)
	batch.Received = []frontier.Mark{{Partition: 2, Session: a.session.ID, Batch: a.number}}
	batch.Hold = []string{"source"}
	b.commit(batch)
	b.says("complete with a new token", false, complete, finish)
	batch = b.batch()
	batch.Release = []string{"source"}
	b.commit(batch)
	b.says("complete", true, complete, finish)
	equal(k, "the second to decide", a.change(finish), false)
	equal(k, "the first again", b.change(finish), true)
	s := k.look()
	equal(k, "state", s.Crawl.State, cluster.Finished)
	equal(k, "reason", s.Crawl.Reason, "complete")
	equal(k, "run", s.Crawl.Run, 1)
	equal(k, "grant to a finished crawl", a.change(cluster.Grant{Partition: 1, Epoch: 1, To: 1}), false)

	resume := cluster.SetState{From: cluster.Finished, To: cluster.Running, NewRun: true}
	equal(k, "resume", a.change(resume), true)
	equal(k, "resume again", a.change(resume), true)
	equal(k, "another's resume", b.change(resume), false)
	equal(k, "run", k.look().Crawl.Run, 2)
}

func testLimit(k *checker) {
	k.create()
	a, b := k.join(), k.join()
	a.claim(1)
	b.claim(2)
	grant := func(n *node, p uint8, from, to uint64) bool {
		n.Helper()
		return n.change(cluster.Grant{Partition: p, Epoch: n.epochs[p], From: from, To: to})
	}
	reached := (*cluster.Snapshot).LimitReached
	end := cluster.SetState{From: cluster.Running, To: cluster.Finished, Reason: "limit", If: cluster.IfLimitReached}
	equal(k, "grant of 4", grant(a, 1, 0, 4), true)
	equal(k, "the same again", grant(a, 1, 0, 4), true)
	equal(k, "grant of 7 beside 4", grant(b, 2, 0, 7), false)
	equal(k, "grant of 6 beside 4", grant(b, 2, 0, 6), true)
	equal(k, "a grant that began elsewhere", grant(b, 2, 5, 7), false)
	equal(k, "granted", k.look().Crawl.Granted, 10)
	equal(k, "give back", grant(a, 1, 4, 3), true)
	equal(k, "take it", grant(b, 2, 6, 7), true)
	equal(k, "one more", grant(b, 2, 7, 8), false)
	_, err := k.Engine.Change(k.Context(), a.session, cluster.Grant{Partition: 2, Epoch: 1, From: 7, To: 6})
	k.fails(err, cluster.ErrFenced)
	_, err = k.Engine.Change(k.Context(), a.session, cluster.Grant{Partition: 1, Epoch: 0, From: 3, To: 2})
	k.fails(err, cluster.ErrFenced)

	count := func(n *node, p uint8, counted uint64, busy uint32) {
		n.Helper()
		batch := n.batch(p)
		batch.Writes[0].Status = cluster.PartStatus{Counted: counted, Busy: busy}
		n.commit(batch)
	}
	count(a, 1, 3, 0)
	count(b, 2, 6, 1)
	a.says("limit with 9 of 10", false, reached, end)
	count(b, 2, 7, 1)
	a.says("limit with a request in flight", false, reached, end)
	count(b, 2, 7, 0)
	// A grant stays with its partition.
	k.ok(k.Engine.Leave(k.Context(), b.session))
	equal(k, "granted", a.claim(2)[0].Granted, 7)
	a.says("limit", true, reached, end)

	resume := cluster.SetState{From: cluster.Finished, To: cluster.Running, NewRun: true}
	equal(k, "pages of earlier runs in the first", k.look().Crawl.Begun.Counted, 0)
	equal(k, "resume", a.change(resume), true)
	equal(k, "pages of earlier runs", k.look().Crawl.Begun.Counted, 10)
	limit := k.look().Crawl.MaxURLs
	equal(k, "change the limit", a.change(cluster.SetPlan{Version: 1, MaxURLs: limit + 5}), true)
	equal(k, "change the limit again", a.change(cluster.SetPlan{Version: 1, MaxURLs: limit + 5}), true)
	equal(k, "another limit for the same version", a.change(cluster.SetPlan{Version: 1, MaxURLs: limit + 6}), false)
	equal(k, "limit", k.look().Crawl.MaxURLs, limit+5)
	equal(k, "limit reached", k.look().LimitReached(), false)
}

// testAnew has a generation that ends and another that counts anew: the session that begins it has all partitions and
// writes with the new grants.
func testAnew(k *checker) {
	k.create()
	a := k.join()
	a.claim(1, 2)
	for _, p := range []uint8{1, 2} {
		equal(k, "grant", a.change(cluster.Grant{Partition: p, Epoch: a.epochs[p], To: 5}), true)
	}
	batch := a.batch(1, 2)
	for i := range batch.Writes {
		batch.Writes[i].Status = cluster.PartStatus{Least: 3, Counted: 4}
	}
	a.commit(batch)
	equal(k, "raise the level", a.change(cluster.RaiseLevel{To: 3}), true)
	equal(k, "end", a.change(cluster.SetState{From: cluster.Running, To: cluster.Finished}), true)

	anew := cluster.SetState{From: cluster.Finished, To: cluster.Running, NewRun: true, Anew: true}
	for range 2 { // the answer to the first may be lost
		equal(k, "begin anew", a.change(anew), true)
	}
	s := k.look()
	equal(k, "level", s.Crawl.Level, 0)
	equal(k, "granted", s.Crawl.Granted, 0)
	equal(k, "run", s.Crawl.Run, 2)
	for _, p := range []uint8{1, 2} {
		equal(k, "grant of a partition", s.Parts[p].Granted, 0)
		equal(k, "owner of a partition", s.Parts[p].Owner, a.session.ID)
	}
	a.commit(a.batch(1, 2))
	equal(k, "grant", a.change(cluster.Grant{Partition: 1, Epoch: a.epochs[1], To: k.look().Crawl.MaxURLs}), true)
}

func testLevel(k *checker) {
	k.create("start")
	n := k.join()
	n.claim(1, 2)
	least := func(one, two uint32) {
		n.Helper()
		batch := n.batch(1, 2)
		batch.Writes[0].Status.Least, batch.Writes[1].Status.Least = one, two
		n.commit(batch)
	}
	says := func(what string, want bool, from, to uint32) {
		n.Helper()
		n.says(what, want, func(s *cluster.Snapshot) bool { return s.MayRaise(to) },
			cluster.RaiseLevel{From: from, To: to})
	}
	least(1, 2)
	says("raise with a token", false, 0, 1)
	n.change(cluster.TakeToken{Name: "start"})
	n.commit(&cluster.Batch{Number: n.number + 1, Release: []string{"start"}})
	says("raise to the least", true, 0, 1)
	says("raise above the least", false, 1, 2)
	least(2, cluster.NoDepth)
	n.commit(&cluster.Batch{Number: n.number + 1, Sent: []cluster.Sent{{To: 2, Body: []byte("x")}}})
	says("raise with a hand-over", false, 1, 2)
	batch := n.batch(2)
	batch.Received = []frontier.Mark{{Partition: 2, Session: n.session.ID, Batch: n.number}}
	batch.Writes[0].Status.Least = 2
	n.commit(batch)
	equal(k, "raise from another level", n.change(cluster.RaiseLevel{From: 0, To: 2}), false)
	says("raise", true, 1, 2)
	equal(k, "raise again", n.change(cluster.RaiseLevel{From: 1, To: 2}), true)
	equal(k, "lower", n.change(cluster.RaiseLevel{From: 2, To: 1}), false)
	equal(k, "level", k.look().Crawl.Level, 2)
}

func testTokens(k *checker) {
	k.create("start", "other")
	a, b := k.join(), k.join()
	take := cluster.TakeToken{Name: "start"}
	equal(k, "take", a.change(take), true)
	equal(k, "take again", a.change(take), true)
	equal(k, "take another's", b.change(take), false)
	equal(k, "take what is not there", b.change(cluster.TakeToken{Name: "none"}), false)
	s := k.look()
	if len(s.Tokens) != 2 || s.Tokens[1] != (cluster.Token{Name: "start", Holder: a.session.ID}) {
		k.Fatalf("tokens are %v", s.Tokens)
	}
	bad := b.batch()
	bad.Release = []string{"start"}
	k.fails(b.tryCommit(bad), cluster.ErrFenced)
	k.expireBut(b)
	equal(k, "take of an expired session", b.change(take), true)
	a.over(cluster.ErrFenced)
	b.change(cluster.SetState{From: cluster.Running, To: cluster.Paused})
	equal(k, "take in a pause", b.change(cluster.TakeToken{Name: "other"}), false)
	b.commit(&cluster.Batch{Number: 1, Release: []string{"start"}})
	equal(k, "take what was released", b.change(take), false)
	equal(k, "tokens", len(k.look().Tokens), 1)
}

func testChanges(k *checker) {
	k.create()
	n := k.join()
	equal(k, "plan", n.change(cluster.SetPlan{Version: 1, Plan: []byte("second")}), true)
	equal(k, "the same again", n.change(cluster.SetPlan{Version: 1, Plan: []byte("second")}), true)
	equal(k, "another for the same version", n.change(cluster.SetPlan{Version: 1, Plan: []byte("third")}), false)
	n.commit(&cluster.Batch{Number: 1, Scope: []string{"b.example", "a.example"}})
	n.commit(&cluster.Batch{Number: 2, Scope: []string{"c.example"}})
	s := n.beat()
	equal(k, "plan", string(s.Crawl.Plan), "second")
	equal(k, "version", s.Crawl.PlanVersion, 2)
	sameStrings(k, "scope", s.Scope, "b.example", "a.example", "c.example")
	s, err := k.Engine.Beat(k.Context(), n.session, cluster.Known{Plan: 2, Scope: 2})
	k.ok(err)
	sameStrings(k, "scope since", s.Scope, "c.example")
	if s.Crawl.Plan != nil || s.Scopes != 3 {
		k.Fatalf("plan %q, %d extensions", s.Crawl.Plan, s.Scopes)
	}
	pause := cluster.SetState{From: cluster.Running, To: cluster.Paused, Reason: "asked"}
	equal(k, "state from another", n.change(cluster.SetState{From: cluster.Paused, To: cluster.Running}), false)
	equal(k, "pause", n.change(pause), true)
	equal(k, "pause again", n.change(pause), true)
	equal(k, "run", n.change(cluster.SetState{From: cluster.Paused, To: cluster.Running}), true)
	equal(k, "pause a second time", n.change(pause), true)
	equal(k, "reason", k.look().Crawl.Reason, "asked")
}
