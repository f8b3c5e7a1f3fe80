package session

import (
	"context"
	"slices"
	"time"

	"github.com/mapwright/mapwright/internal/cluster"
)

// A History is the record of the work on a crawl, for its report.
type History struct {
	Name     string // of the crawl
	Run      uint64
	Created  time.Time     // the crawl: when its first run began
	Used     time.Duration // in all runs
	RunUsed  time.Duration // in this run
	RunPages uint64        // counted in this run
	Machines []Machine     // in the order in which they first joined
}

// A Machine is a data directory that took part in a crawl, in all runs.
type Machine struct {
	Name      string // of its last session
	ID        string
	Joined    time.Time // first
	LastBeat  time.Time
	Sessions  int
	Pages     uint64 // that it fetched; what a killed process fetched after its last beat is missing
	Batches   uint64
	Takeovers uint64 // partitions that it took over from machines that had not closed them
	Fenced    uint64 // its sessions that ended because others had taken its partitions over
	Lost      bool   // its last session did not leave
}

// History waits until the other machines have left, at most for a lease, so that their last tallies are known. The
// caller has all partitions and has decided the end of the crawl, so no other machine works on it. Machines are those
// that joined since a time of this machine's clock, which is the begin of a generation; zero means all.
func (s *Session) History(ctx context.Context, since time.Time) (*History, error) {
	for waited := time.Duration(0); ; waited += historyEvery {
		snap, err := s.look(ctx, cluster.Known{Plan: s.crawl.PlanVersion})
		if err != nil {
			return nil, err
		}
		list, err := ask(ctx, &s.calls, func(ctx context.Context) ([]cluster.Member,
			error) {
			return s.engine.Sessions(ctx, s.id.Crawl)
		})
		if err != nil {
			return nil, err
		}
		if !since.IsZero() {
			// machines that joined in the generation before did so long ago
			since := since.Add(-cluster.ClockTolerance)
			list = slices.DeleteFunc(list, func(m cluster.Member) bool { return m.Joined.Before(since) })
		}
		left := true
		for i := range list {
			m := &list[i]
			if m.Session == s.id.ID {
				m.Tally, m.Left = s.Tally(), true // it leaves when the report is written
			}
			left = left && (m.Ended || m.Left || !snap.Alive(m))
		}
		if !left && waited < cluster.Lease {
			sleep(ctx, historyEvery)
			continue
		}
		c := &snap.Crawl
		return &History{
			Name: c.Name, Run: c.Run, Created: c.Created, Used: c.Used, RunUsed: c.Used - c.Begun.Used,
			RunPages: snap.Counted() - c.Begun.Counted, Machines: machines(list),
		}, nil
	}
}

// historyEvery is how often History looks whether the other machines have left.
const historyEvery = 50 * time.Millisecond

// machines adds up sessions by machine. The counts of a session are those of its process up to then, so the last
// session of each process counts.
func machines(list []cluster.Member) []Machine {
	type process struct {
		machine cluster.MachineID
		name    string
	}
	at, tallies := map[cluster.MachineID]int{}, map[process]cluster.Tally{}
	var all []Machine
	for i := range list {
		s := &list[i]
		n, known := at[s.Machine]
		if !known {
			n = len(all)
			at[s.Machine] = n
			all = append(all, Machine{ID: s.Machine.String(), Joined: s.Joined})
		}
		m, of := &all[n], process{s.Machine, s.Name}
		before, now := tallies[of], s.Tally
		now.Pages, now.Takeovers, now.Fenced = max(now.Pages, before.Pages), max(now.Takeovers, before.Takeovers),
			max(now.Fenced, before.Fenced)
		m.Pages += now.Pages - before.Pages
		m.Takeovers += now.Takeovers - before.Takeovers
		m.Fenced += now.Fenced - before.Fenced
		tallies[of] = now
		m.Name, m.LastBeat, m.Lost = s.Name, s.Beat, !s.Left
		m.Sessions++
		m.Batches += s.Batch
	}
	return all
}

// Settle replaces the reason of the end of the crawl by the one that its records have shown. Only the session that has
// decided the end calls it.
func (s *Session) Settle(reason string) error {
	_, err := s.journal.change(cluster.SetState{From: cluster.Finished, To: cluster.Finished, Reason: reason})
	return err
}
