package cluster

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"
)

func machine(n byte) (m MachineID) {
	m[15] = n
	return m
}

func TestOwnerIsFixed(t *testing.T) {
	machines := []MachineID{machine(1), machine(2), machine(3)}
	var got []byte
	for p := range 16 {
		owner, ok := Owner(uint8(p), machines)
		if !ok {
			t.Fatal("no owner")
		}
		got = append(got, owner[15])
	}
	if want := "[3 1 2 1 2 2 1 3 2 3 1 2 2 2 1 1]"; fmt.Sprint(got) != want {
		t.Errorf("first owners of 3 machines: %v, want %v", got, want)
	}
	if _, ok := Owner(0, nil); ok {
		t.Error("a partition has an owner without machines")
	}
}

func TestOwnerMovesOnlyToTheNewMachine(t *testing.T) {
	for n := 1; n < 12; n++ {
		var machines []MachineID
		for i := range n {
			machines = append(machines, machine(byte(i)))
		}
		more := append(slices.Clone(machines), machine(100))
		moved := 0
		for p := range Partitions {
			was, _ := Owner(uint8(p), machines)
			is, _ := Owner(uint8(p), more)
			slices.Reverse(more) // the order does not matter
			if again, _ := Owner(uint8(p), more); again != is {
				t.Fatalf("partition %d: the owner depends on the order", p)
			}
			if is == was {
				continue
			}
			if moved++; is != machine(100) {
				t.Errorf("partition %d goes from %v to %v", p, was, is)
			}
		}
		share := 1 / float64(n+1)
		if dev := math.Sqrt(share * (1 - share) * Partitions); math.Abs(float64(moved)-share*Partitions) > 4*dev {
			t.Errorf("%d partitions move to machine %d, want about %.0f", moved, n+1, share*Partitions)
		}
	}
}

// moves is a table of members and the moves of the first one.
func TestNextMoves(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	member := func(n byte, beats uint64, silent, joined time.Duration) Member {
		return Member{Session: SessionID{n}, Machine: machine(n), Beats: beats, Beat: now.Add(-silent),
			Joined: now.Add(-joined), Since: now.Add(-joined)}
	}
	wins := func(self byte, others ...byte) (parts []uint8) {
		list := []MachineID{machine(self)}
		for _, o := range others {
			list = append(list, machine(o))
		}
		for p := range Partitions {
			if owner, _ := Owner(uint8(p), list); owner == machine(self) {
				parts = append(parts, uint8(p))
			}
		}
		return parts
	}
	all, mine, theirs := wins(1), wins(1, 2), wins(2, 1)
	const hour = time.Hour
	for _, c := range []struct {
		name    string
		members []Member
		owner   byte // of all partitions
		want    Moves
	}{
		{"alone, nothing owned", []Member{member(1, 2, 0, hour)}, 0, Moves{Claim: all}},
		{"alone, everything owned", []Member{member(1, 2, 0, hour)}, 1, Moves{}},
		{"after one beat", []Member{member(1, 1, 0, hour)}, 0, Moves{}},
		{"after one beat, everything owned", []Member{member(1, 1, 0, hour)}, 1, Moves{}},
		{"another, nothing owned", []Member{member(1, 2, 0, hour), member(2, 2, 0, hour)}, 0, Moves{Claim: mine}},
		{"another has all", []Member{member(1, 2, 0, hour), member(2, 2, 0, hour)}, 2, Moves{Wait: mine}},
		{"another has come", []Member{member(1, 2, 0, hour), member(2, 2, 0, hour)}, 1, Moves{Close: theirs}},
		{"another has come, with one beat", []Member{member(1, 2, 0, hour), member(2, 1, 0, hour)}, 1, Moves{}},
		{"another has expired", []Member{member(1, 2, 0, hour), member(2, 2, Lease+1, hour)}, 2, Moves{Claim: all}},
		{"another has expired, too soon", []Member{member(1, 2, 0, Lease-1), member(2, 2, Lease+1, hour)}, 2,
			Moves{Wait: all}},
		{"another has ended", []Member{member(1, 2, 0, Lease-1)}, 2, Moves{Claim: all}},
		{"expired itself", []Member{member(1, 2, Lease+1, hour), member(2, 2, 0, hour)}, 1, Moves{Close: all}},
		{"a later session of the same machine", []Member{member(1, 2, 0, hour),
			{Session: SessionID{9}, Machine: machine(1), Beats: 2, Beat: now, Joined: now}}, 1, Moves{Close: all}},
		{"not a member", []Member{member(2, 2, 0, hour)}, 0, Moves{}},
	} {
		s := &Snapshot{Now: now, Members: c.members}
		for p := range s.Parts {
			if c.owner > 0 {
				s.Parts[p].Owner = SessionID{c.owner}
			}
		}
		if got := NextMoves(s, SessionID{1}); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
