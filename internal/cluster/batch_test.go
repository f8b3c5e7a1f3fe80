package cluster

import (
	"errors"
	"testing"

	"github.com/mapwright/mapwright/frontier"
)

// TestDigest changes one thing of a batch after the other.
func TestDigest(t *testing.T) {
	sample := func() *Batch {
		return &Batch{
			Number: 3,
			Writes: []Write{{Partition: 1, Epoch: 2, After: Place{4, 5}, Body: []byte("row"),
				Status: PartStatus{Least: 1, Counts: []byte("c")}}, {Partition: 2}},
			Sent:     []Sent{{To: 1, Body: []byte("link")}},
			Received: []frontier.Mark{{Partition: 1, Batch: 4}},
			Hold:     []string{"a"}, Release: []string{"b"}, Scope: []string{"c", "d"},
		}
	}
	seen := map[uint64]int{sample().Digest(): -1}
	if first, second := sample().Digest(), sample().Digest(); first != second {
		t.Fatal("two digests of the same batch differ")
	}
	for i, change := range []func(*Batch){
		func(b *Batch) { b.Number++ },
		func(b *Batch) { b.Writes = b.Writes[:1] },
		func(b *Batch) { b.Writes[0].Partition-- },
		func(b *Batch) { b.Writes[0].Epoch++ },
		func(b *Batch) { b.Writes[0].After.Seq++ },
		func(b *Batch) { b.Writes[0].After.Hash++ },
		func(b *Batch) { b.Writes[0].Granted++ },
		func(b *Batch) { b.Writes[0].Body = []byte("rov") },
		func(b *Batch) { b.Writes[0].Body = nil },
		func(b *Batch) { b.Writes[0].Status.Idle = true },
		func(b *Batch) { b.Writes[0].Status.Busy++ },
		func(b *Batch) { b.Writes[0].Status.Least++ },
		func(b *Batch) { b.Writes[0].Status.Counted++ },
		func(b *Batch) { b.Writes[0].Status.Counts = nil },
		func(b *Batch) { b.Writes[0].Close = true },
		func(b *Batch) { b.Sent = nil },
		func(b *Batch) { b.Sent[0].To++ },
		func(b *Batch) { b.Sent[0].Body = []byte("lint") },
		func(b *Batch) { b.Received = nil },
		func(b *Batch) { b.Received[0].Partition++ },
		func(b *Batch) { b.Received[0].Session[0]++ },
		func(b *Batch) { b.Received[0].Batch++ },
		func(b *Batch) { b.Hold, b.Release = b.Release, b.Hold },
		func(b *Batch) { b.Scope = []string{"cd"} },
		func(b *Batch) { b.Scope, b.Hold = nil, []string{"a", "c", "d"} },
	} {
		b := sample()
		change(b)
		d := b.Digest()
		if other, ok := seen[d]; ok {
			t.Errorf("change %d has the same digest as change %d", i, other)
		}
		seen[d] = i
	}
}

func TestCheckFence(t *testing.T) {
	me, other := SessionID{1}, SessionID{2}
	head := Place{}.Next([]byte("row"))
	next := head.Next([]byte("next"))
	for name, c := range map[string]struct {
		part Part
		want error
	}{
		"as known":                      {Part{Owner: me, Epoch: 3, Head: head}, nil},
		"claimed by another":            {Part{Owner: other, Epoch: 4, Head: head}, ErrFenced},
		"closed":                        {Part{Epoch: 3, Head: head}, ErrFenced},
		"a further row":                 {Part{Owner: me, Epoch: 3, Head: next}, ErrFenced},
		"an epoch is gone":              {Part{Owner: me, Epoch: 2, Head: head}, ErrRolledBack},
		"a grant is gone":               {Part{Owner: me, Epoch: 3, Head: head, Granted: 1}, ErrRolledBack},
		"a row is gone":                 {Part{Owner: me, Epoch: 3}, ErrRolledBack},
		"another has the same epoch":    {Part{Owner: other, Epoch: 3, Head: head}, ErrRolledBack},
		"another has an earlier epoch":  {Part{Owner: other, Epoch: 2, Head: head}, ErrRolledBack},
		"another row at the same place": {Part{Owner: me, Epoch: 3, Head: Place{1, 7}}, ErrFenced},
	} {
		err := CheckFence(&c.part, me, &Write{Epoch: 3, After: head})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
