package cluster

import (
	"bytes"

	"github.com/cespare/xxhash/v2"
)

// Owner returns which of the machines should own a partition, false if there is none.
//
// It is highest-random-weight (rendezvous) hashing, as in the frontier's shards: every pair of partition and machine
// has a fixed weight, and the heaviest machine wins. A machine that joins takes only the partitions that it wins, and
// only these move again when it leaves.
func Owner(partition uint8, machines []MachineID) (owner MachineID, ok bool) {
	var most uint64
	for _, m := range machines {
		w := weight(partition, m)
		if !ok || w > most || w == most && bytes.Compare(m[:], owner[:]) < 0 {
			owner, most, ok = m, w, true
		}
	}
	return owner, ok
}

// weight must never change: machines that disagree about it would take partitions
// from each other.
func weight(partition uint8, m MachineID) uint64 {
	var b [17]byte
	b[0] = partition
	copy(b[1:], m[:])
	return xxhash.Sum64(b[:])
}

// Moves are what a session should do next about the partitions of its crawl.
type Moves struct {
	Claim []uint8 // it should own them, and they can be claimed
	Close []uint8 // it owns them, and another should
	Wait  []uint8 // it should own them, and another has them
}

// NextMoves compares the owners of partitions with those that should own them. A
// session that has not sent CountedBeats beats gets no partition from a living one.
// If a machine has several living sessions, the one that joined last counts.
func NextMoves(s *Snapshot, self SessionID) Moves {
	var moves Moves
	me := s.Member(self)
	if me == nil {
		return moves
	}
	latest := map[MachineID]*Member{}
	for i := range s.Members {
		m := &s.Members[i]
		if !s.Alive(m) || m.Beats < CountedBeats {
			continue
		}
		if l := latest[m.Machine]; l == nil || m.Joined.After(l.Joined) {
			latest[m.Machine] = m
		}
	}
	machines := make([]MachineID, 0, len(latest))
	for id := range latest {
		machines = append(machines, id)
	}
	mayEnd := s.Alive(me) && s.Now.Sub(me.Since) >= Lease
	for p := range s.Parts {
		winner, ok := Owner(uint8(p), machines)
		mine := ok && latest[winner].Session == self
		owner := s.Member(s.Parts[p].Owner)
		switch {
		case owner == me:
			if ok && !mine {
				moves.Close = append(moves.Close, uint8(p))
			}
		case !mine:
		case owner == nil, !s.Alive(owner) && mayEnd:
			moves.Claim = append(moves.Claim, uint8(p))
		default:
			moves.Wait = append(moves.Wait, uint8(p))
		}
	}
	return moves
}
