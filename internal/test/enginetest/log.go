package enginetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/cluster"
)

func testFence(k *checker) {
	k.create("start")
	a, b := k.join(), k.join()
	a.claim(1, 2, 3)
	first := a.batch(1, 2, 3)
	first.Writes[1].Status = cluster.PartStatus{Busy: 3, Least: 2, Counted: 4, Counts: []byte("c")}
	a.commit(first)
	if p := k.look().Parts[2]; p.Status.Idle || p.Status.Busy != 3 || p.Status.Least != 2 || p.Status.Counted != 4 ||
		string(p.Status.Counts) != "c" || p.Head != a.heads[2] {
		k.Fatalf("partition is %+v", p)
	}
	equal(k, "session of a row", k.log(1)[0].Session, a.session.ID)
	equal(k, "epoch of a row", k.log(1)[0].Epoch, 1)

	// A status without a row.
	status := a.batch(2)
	status.Writes[0].Body = nil
	a.commit(status)
	if p := k.look().Parts[2]; !p.Status.Idle || p.Head != first.Writes[1].Head() {
		k.Fatalf("partition is %+v", p)
	}

	// Each fault of one write stops all of the batch.
	b.claim(4)
	faults := map[string]func(*cluster.Write){
		"another's":    func(w *cluster.Write) { w.Partition, w.Epoch, w.After = 4, 0, cluster.Place{} },
		"free":         func(w *cluster.Write) { w.Partition, w.Epoch, w.After = 5, 0, cluster.Place{} },
		"old epoch":    func(w *cluster.Write) { w.Epoch-- },
		"old place":    func(w *cluster.Write) { w.After = cluster.Place{} },
		"another hash": func(w *cluster.Write) { w.After.Hash++ },
	}
	before := k.look()
	for name, fault := range faults {
		bad := a.batch(1, 3)
		bad.Sent = []cluster.Sent{{To: 9, Body: []byte("x")}}
		bad.Hold = []string{"more"}
		bad.Scope = []string{"example.org"}
		fault(&bad.Writes[1])
		if err := a.tryCommit(bad); !errors.Is(err, cluster.ErrFenced) {
			k.Fatalf("%s: error is %v", name, err)
		}
		after := k.look()
		if after.Parts[1].Head != before.Parts[1].Head || after.Waiting != 0 || len(after.Tokens) != 1 ||
			after.Scopes != 0 {
			k.Fatalf("%s: part of the batch was committed: %+v", name, after)
		}
	}
	if !a.change(cluster.Grant{Partition: 1, Epoch: 1, To: 2}) {
		k.Fatal("no grant")
	}
	for name, ahead := range map[string]func(*cluster.Write){
		"no grant":    func(w *cluster.Write) { w.Granted = 0 },
		"epoch ahead": func(w *cluster.Write) { w.Epoch++ },
		"place ahead": func(w *cluster.Write) { w.After = w.After.Next([]byte("lost")) },
	} {
		bad := a.batch(1)
		ahead(&bad.Writes[0])
		if err := a.tryCommit(bad); !errors.Is(err, cluster.ErrRolledBack) {
			k.Fatalf("%s: error is %v", name, err)
		}
	}
	bad := a.batch(1)
	bad.Release = []string{"start"} // it does not hold it
	k.fails(a.tryCommit(bad), cluster.ErrFenced)
	bad = a.batch(1)
	bad.Hold = []string{"start"}
	k.fails(a.tryCommit(bad), cluster.ErrFenced)
	a.commit(a.batch(1, 3))
	equal(k, "rows", len(k.log(1)), 2)
	equal(k, "rows", len(k.log(2)), 1)
	equal(k, "rows", len(k.log(4)), 0)
}

func testRead(k *checker) {
	k.create()
	n := k.join()
	n.claim(0, 255)
	var want [][]byte
	for i := range 50 {
		b := n.batch(0, 255)
		b.Writes[0].Body = bytes.Repeat([]byte{byte(i)}, 1+i*i*10)
		want = append(want, b.Writes[0].Body)
		n.commit(b)
	}
	for _, limit := range []int{1, 100, 10_000, 1 << 20} {
		rows := k.logAfter(0, cluster.Place{}, limit)
		equal(k, "rows", len(rows), len(want))
		for i := range rows {
			if !bytes.Equal(rows[i].Body, want[i]) {
				k.Fatalf("row %d has another body", i)
			}
		}
		if tail := k.logAfter(0, rows[29].Place, limit); len(tail) != 20 || tail[0].Seq != 31 {
			k.Fatalf("%d rows after row 30", len(tail))
		}
	}
	first, err := k.Engine.Read(k.Context(), k.crawl.ID, 0, cluster.Place{}, 10_000)
	k.ok(err)
	size := 0
	for i := range first {
		size += len(first[i].Body)
	}
	if size < 10_000 || size-len(first[len(first)-1].Body) >= 10_000 {
		k.Fatalf("%d bytes for a limit of 10,000", size)
	}
	last := n.heads[0]
	equal(k, "rows after the last", len(k.logAfter(0, last, 1)), 0)
	for _, wrong := range []cluster.Place{{Seq: last.Seq, Hash: last.Hash + 1}, {Seq: last.Seq + 1, Hash: last.Hash},
		n.heads[255]} {
		_, err := k.Engine.Read(k.Context(), k.crawl.ID, 0, wrong, 1)
		k.fails(err, cluster.ErrRolledBack)
	}
}

func testAmbiguous(k *checker) {
	k.create("start")
	a, b := k.join(), k.join()
	a.claim(1, 2)
	for i, done := range []bool{true, false, true, true, false, false} {
		batch := a.batch(1, 2)
		batch.Sent = []cluster.Sent{{To: 9, Body: number(uint64(i))}}
		batch.Scope = []string{fmt.Sprint("scope ", i)}
		k.Lose(done)
		k.fails(a.tryCommit(batch), cluster.ErrUnknown)
		if i >= 3 { // the second answer is lost too
			k.Lose(true)
			k.fails(a.tryCommit(batch), cluster.ErrUnknown)
		}
		a.commit(batch)
		a.commit(batch)
	}
	equal(k, "rows", len(k.log(1)), 6)
	equal(k, "rows", len(k.log(2)), 6)
	s := k.look()
	equal(k, "hand-overs", s.Waiting, 6)
	equal(k, "extensions", len(s.Scope), 6)

	other := a.batch(1)
	other.Number-- // as the last one, with another content
	if err := a.tryCommit(other); err == nil {
		k.Fatal("a second batch of the same number was committed")
	}
	old := &cluster.Batch{Number: 1}
	if err := a.tryCommit(old); err == nil {
		k.Fatal("an old batch was committed")
	}
	k.fails(a.tryCommit(&cluster.Batch{Number: 9}), cluster.ErrRolledBack)
	equal(k, "rows", len(k.log(1)), 6)

	// Fenced before it is sent again: the session is over either way.
	batch := a.batch(1)
	k.Lose(false)
	k.fails(a.tryCommit(batch), cluster.ErrUnknown)
	k.Advance(cluster.Lease + cluster.BeatEvery)
	b.beat()
	k.expireBut(b)
	b.claim(1)
	k.fails(a.tryCommit(batch), cluster.ErrFenced)
	equal(k, "rows", len(k.log(1)), 6)
}

func testRollback(k *checker) {
	k.create()
	a := k.join()
	a.claim(1, 2)
	a.commit(a.batch(1, 2))
	restore := k.Save()
	a.commit(a.batch(1))
	place := a.heads[1]
	late := k.join()
	late.claim(3)
	restore()

	_, err := k.Engine.Read(k.Context(), k.crawl.ID, 1, place, 1)
	k.fails(err, cluster.ErrRolledBack)
	k.fails(a.tryCommit(a.batch(1)), cluster.ErrRolledBack)
	k.fails(a.tryCommit(a.batch(2)), cluster.ErrRolledBack) // its batch before was lost
	late.over(cluster.ErrRolledBack)

	// The number of an epoch is given again, and the head is where the first owner knows it.
	b := k.join()
	restore = k.Save()
	b.claim(4)
	restore()
	k.join().claim(4)
	k.fails(b.tryCommit(b.batch(4)), cluster.ErrRolledBack)

	// The log goes on with other rows: an old place is not in it.
	a.number, a.heads[1] = 1, k.look().Parts[1].Head
	other := a.batch(1)
	other.Writes[0].Body = []byte("other")
	a.commit(other)
	_, err = k.Engine.Read(k.Context(), k.crawl.ID, 1, place, 1)
	k.fails(err, cluster.ErrRolledBack)
}

func testHandover(k *checker) {
	k.create()
	a, b, c := k.join(), k.join(), k.join()
	a.claim(1)
	b.claim(2, 3)
	send := func(n *node, body string, to ...uint8) {
		batch := &cluster.Batch{Number: n.number + 1}
		for _, p := range to {
			batch.Sent = append(batch.Sent, cluster.Sent{To: p, Body: []byte(body)})
		}
		n.commit(batch)
	}
	send(a, "a1", 2, 3, 100)
	send(c, "c1", 2)
	a.commit(a.batch(1)) // no hand-over in it
	send(a, "a3", 2)
	equal(k, "hand-overs to the sender", len(a.inbox()), 0)
	list := b.inbox()
	of2 := []string{"a1", "a3", "c1"}
	if bytes.Compare(c.session.ID[:], a.session.ID[:]) < 0 {
		of2 = []string{"c1", "a1", "a3"}
	}
	sameStrings(k, "inbox", bodies(list), append(of2, "a1")...)
	equal(k, "sender", list[3].From, a.session.ID)
	equal(k, "batch", list[3].Batch, 1)

	// One at a time, each after what was read before.
	var seen []string
	var marks []frontier.Mark
	for {
		some, err := k.Engine.Inbox(k.Context(), b.session, marks, 1)
		k.ok(err)
		if len(some) == 0 {
			break
		}
		equal(k, "hand-overs within a limit of 1 byte", len(some), 1)
		seen = append(seen, bodies(some)...)
		marks = append(marks, frontier.Mark{Partition: some[0].To, Session: some[0].From, Batch: some[0].Batch})
	}
	sameStrings(k, "one by one", seen, bodies(list)...)

	// A mark whose batch is fenced receives nothing.
	bad := b.batch(2)
	bad.Writes[0].After.Hash++
	bad.Received = []frontier.Mark{{Partition: 2, Session: a.session.ID, Batch: 3}}
	k.fails(b.tryCommit(bad), cluster.ErrFenced)
	equal(k, "hand-overs", len(b.inbox()), 4)

	receive := b.batch(2)
	receive.Received = []frontier.Mark{{Partition: 2, Session: a.session.ID, Batch: 1}}
	b.commit(receive)
	of2 = slices.DeleteFunc(of2, func(s string) bool { return s == "a1" })
	sameStrings(k, "after a mark", bodies(b.inbox()), append(of2, "a1")...)

	// What is left is for the next owner; the sender has gone.
	k.ok(k.Engine.Leave(k.Context(), a.session))
	k.ok(k.Engine.Leave(k.Context(), b.session))
	c.claim(2, 100)
	sameStrings(k, "next owner", bodies(c.inbox()), append(of2, "a1")...)
	receive = c.batch(2)
	receive.Received = []frontier.Mark{{Partition: 2, Session: a.session.ID, Batch: 3},
		{Partition: 2, Session: c.session.ID, Batch: 1}}
	c.commit(receive)
	c.commit(receive)
	sameStrings(k, "at the end", bodies(c.inbox()), "a1")
	equal(k, "waiting", k.look().Waiting, 2) // for 3, which no session owns, and for 100
}

func testFaulty(k *checker) {
	k.create()
	n := k.join()
	n.claim(1, 2)
	write := n.batch(1, 2).Writes
	for name, b := range map[string]*cluster.Batch{
		"no number": {},
		"order":     {Number: 1, Writes: []cluster.Write{write[1], write[0]}},
		"twice":     {Number: 1, Writes: []cluster.Write{write[0], write[0]}},
		"order of hand-overs": {Number: 1, Sent: []cluster.Sent{{To: 2, Body: []byte("x")},
			{To: 1, Body: []byte("x")}}},
		"empty hand-over":      {Number: 1, Sent: []cluster.Sent{{To: 2}}},
		"received without row": {Number: 1, Received: []frontier.Mark{{Partition: 1}}},
		"received with no body": {Number: 1, Writes: []cluster.Write{{Partition: 1, Epoch: 1}},
			Received: []frontier.Mark{{Partition: 1}}},
		"token twice":        {Number: 1, Hold: []string{"x"}, Release: []string{"x"}},
		"token without name": {Number: 1, Hold: []string{""}},
	} {
		if err := n.tryCommit(b); err == nil {
			k.Errorf("%s: committed", name)
		}
	}
	n.commit(n.batch(1, 2))
}
