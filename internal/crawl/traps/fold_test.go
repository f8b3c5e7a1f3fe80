package traps

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/test/long"
)

// history is the evidence of a crawl with sessions, sequences and combinations.
func history(t testing.TB, rng *rand.Rand) []frontier.Evidence {
	traps := New(true, 1)
	var all []frontier.Evidence
	// rests of a path segment, more than are all looked at; a few show two values and two texts
	for i := range 2 * manyRests {
		_, all = traps.Read(link(t, fmt.Sprintf("/%d/article-%d.html", rng.IntN(50), i-rng.IntN(2))), rng.Uint64(),
			rng.Uint64(), all)
	}
	for i := range 3000 {
		page := rng.IntN(30)
		l := link(t, fmt.Sprintf("/page-%d?sid=%d&a=%d&b=%d", page, rng.IntN(500), rng.IntN(3), rng.IntN(2)))
		l.Repeats = uint8(rng.IntN(3))
		l.Parent = link(t, fmt.Sprintf("/parent-%d", rng.IntN(200))).URL
		var v Decision
		if v, all = traps.Admit(l, false, all); v.Trap != "" {
			continue
		}
		switch {
		case i%17 == 0:
			all = traps.Failed(l, all)
		case traps.JudgeQueued(l, false) == "":
			_, all = traps.Read(l, uint64(page), uint64(page), all)
			all = traps.Answered(l, all)
		}
	}
	return all
}

func snapshot(t testing.TB, traps *Traps) []byte {
	t.Helper()
	b, err := traps.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What is computed from evidence is the same after a snapshot and the evidence since, of which the snapshot may hold
// some already.
func TestFoldIsTheSameAfterASnapshot(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	all := history(t, rng)
	whole := New(true, 1)
	for _, e := range all {
		whole.Fold(e)
	}
	if whole.ineffective.Load().len() == 0 || whole.seqs.pages.len() == 0 || whole.combos.sets.len() == 0 ||
		whole.params.claims.len() == 0 {
		t.Fatal("the history lacks some evidence")
	}
	want := snapshot(t, whole)
	for range 10 {
		at := rng.IntN(len(all))
		before := New(true, 1)
		for _, e := range all[:at] {
			before.Fold(e)
		}
		after := New(true, 1)
		if err := after.Restore(bytes.NewReader(snapshot(t, before))); err != nil {
			t.Fatal(err)
		}
		for _, e := range all[max(0, at-rng.IntN(200)):] {
			after.Fold(e)
		}
		if !bytes.Equal(snapshot(t, after), want) {
			t.Errorf("cut at %d of %d, the state is another one", at, len(all))
		}
	}
	for _, e := range all {
		whole.Fold(e)
	}
	if !bytes.Equal(snapshot(t, whole), want) {
		t.Error("evidence that comes again changes the state")
	}
}

// However much evidence there is, the state has a bound.
func TestFoldIsBounded(t *testing.T) {
	long.Test(t)
	traps := New(true, 1)
	rng := rand.New(rand.NewPCG(1, 2))
	n := 10_000_000
	if raceEnabled {
		n /= 10
	}
	kinds := []frontier.EvidenceKind{EvidenceParameter, EvidenceSequence, EvidenceCombination, EvidenceText,
		EvidenceClaim, EvidenceListed}
	words := make([]uint64, 6)
	for i := range n {
		for j := range words {
			words[j] = rng.Uint64()
		}
		subject := rng.Uint64()
		if i%2 == 0 {
			subject = uint64(i % 1000) // some come often
			words[1], words[3] = rng.Uint64N(1000), rng.Uint64N(2)
		}
		traps.Fold(frontier.Evidence{Kind: kinds[i%len(kinds)], Subject: subject, Words: words})
	}
	if got, most := len(snapshot(t, traps)), 64<<20; got > most {
		t.Errorf("the snapshot has %d bytes, want at most %d", got, most)
	}
}

func FuzzRestore(f *testing.F) {
	traps := New(true, 1)
	for _, e := range history(f, rand.New(rand.NewPCG(3, 4)))[:20] {
		traps.Fold(e)
	}
	// The filters make up most of a snapshot, and have a checksum of their own.
	b := snapshot(f, traps)
	f.Add(b[:min(len(b), 2000)])
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		traps := New(true, 1)
		if err := traps.Restore(bytes.NewReader(b)); err != nil {
			if n := traps.params.rests.len() + traps.params.claims.len() + traps.seqs.pages.len() +
				traps.combos.sets.len() + traps.texts.newer.Len(); n > 0 {
				t.Error("after an error something is known")
			}
			return
		}
		if !bytes.Equal(snapshot(t, traps), b) {
			t.Error("what is saved again is not the same")
		}
	})
}
