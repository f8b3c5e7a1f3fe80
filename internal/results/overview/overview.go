// Package overview is a crawl of several machines as people see it from outside: which
// crawls there are, how far one has come, and who works on it. It needs no session and
// changes nothing.
package overview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
)

// Version stands first in a status. It is raised if a field is removed or changes its meaning, not if one is added.
const Version = 1

// ErrSeveral means that no name was given and there are several crawls.
var ErrSeveral = errors.New("there are several crawls")

// Find returns the crawl of a name. Without a name, the only crawl is meant.
func Find(ctx context.Context, c cluster.Catalog, name string) (*cluster.Crawl, error) {
	list, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	if name == "" && len(list) == 1 {
		return &list[0], nil
	}
	names := make([]string, len(list))
	for i := range list {
		if names[i] = list[i].Name; names[i] == name {
			return &list[i], nil
		}
	}
	slices.Sort(names)
	switch {
	case len(list) == 0:
		return nil, cluster.ErrNoCrawl
	case name == "":
		return nil, fmt.Errorf("%w: %s", ErrSeveral, strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("%q: %w, only %s", name, cluster.ErrNoCrawl, strings.Join(names, ", "))
}

// A Crawl is an entry in the list of crawls.
type Crawl struct {
	Name      string        `json:"name"`
	State     cluster.State `json:"state"`
	Reason    string        `json:"reason,omitempty"`
	CreatedAt page.Time     `json:"created_at"`
	Elapsed   float64       `json:"elapsed_seconds"` // while at least one machine worked on it, in all runs
}

// Summary is a crawl as a list has it.
func Summary(c *cluster.Crawl) Crawl {
	return Crawl{Name: c.Name, State: c.State, Reason: c.Reason, CreatedAt: page.Time{Time: c.Created},
		Elapsed: c.Used.Seconds()}
}

// A Status is a crawl at one moment.
type Status struct {
	SchemaVersion int `json:"schema_version"`
	Crawl
	Run           uint64   `json:"run"`
	Profile       string   `json:"profile"`
	StartURLs     []string `json:"start_urls"`
	StartURLCount int      `json:"start_url_count"` // StartURLs has the first few of them
	Generation    uint32   `json:"generation"`

	Found    int64            `json:"found"`
	Done     int64            `json:"done"`
	Pending  int64            `json:"pending"`
	Outcomes map[string]int64 `json:"outcomes"`
	Bytes    int64            `json:"bytes"`
	Counted  int64            `json:"pages_counted"` // towards MaxURLs
	MaxURLs  int64            `json:"max_urls,omitempty"`

	// links on their way from one machine to another; counted up to 10,000
	Handovers int       `json:"handovers_waiting"`
	Sources   []string  `json:"sources,omitempty"` // that may still add URLs
	Unowned   int       `json:"partitions_without_machine"`
	Machines  []Machine `json:"machines"`

	Memory *cluster.Memory `json:"server_memory,omitempty"` // in bytes; nil if the engine does not keep crawls in memory
}

// A Machine has joined a crawl and has not left it. If it was killed, it is not alive.
type Machine struct {
	Name       string    `json:"name"`
	ID         string    `json:"id"`
	Alive      bool      `json:"alive"` // its lease is valid
	JoinedAt   page.Time `json:"joined_at"`
	LastBeatAt page.Time `json:"last_beat_at"`
	Silent     float64   `json:"seconds_since_beat"`
	Partitions int       `json:"partitions"`
	Batches    uint64    `json:"batches"`
	BatchMS    float64   `json:"batch_latency_ms"` // of a commit, moving average
	// partitions that it took over from machines that had not closed them
	Takeovers uint64 `json:"takeovers"`
	// its sessions that ended because others had taken its partitions over
	Fenced    uint64 `json:"fenced"`
	Replaying uint32 `json:"partitions_replayed"` // whose log it is reading
	RowsLeft  uint64 `json:"replay_rows_left"`    // of those logs
}

// maxShownStarts bounds the list of start URLs.
const maxShownStarts = 10

// Of makes the status of a snapshot that has the crawl's plan.
func Of(s *cluster.Snapshot) (*Status, error) {
	counters, err := s.Counters()
	if err != nil {
		return nil, err
	}
	plan, err := datadir.DecodePlan(s.Crawl.Plan, "the plan of crawl "+s.Crawl.Name)
	if err != nil {
		return nil, err
	}
	out := &Status{
		SchemaVersion: Version, Crawl: Summary(&s.Crawl), Run: s.Crawl.Run, StartURLCount: len(plan.Starts),
		Generation: counters.Generation,
		Found:      int64(counters.Discovered), Done: int64(counters.Done()), Pending: int64(counters.Pending()),
		Bytes:    int64(counters.Bytes),
		Outcomes: monitor.OutcomeCounts(&counters, 0), MaxURLs: int64(s.Crawl.MaxURLs), Handovers: s.Waiting,
		Machines: []Machine{}, Profile: plan.Profile(),
	}
	for _, st := range plan.Starts[:min(len(plan.Starts), maxShownStarts)] {
		out.StartURLs = append(out.StartURLs, st.URL)
	}
	for _, t := range s.Tokens {
		out.Sources = append(out.Sources, t.Name)
	}
	out.addMachines(s)
	return out, nil
}

// addMachines adds the machines in the order in which they joined.
func (out *Status) addMachines(s *cluster.Snapshot) {
	members := slices.Clone(s.Members)
	slices.SortStableFunc(members, func(a, b cluster.Member) int { return a.Joined.Compare(b.Joined) })
	at := map[cluster.SessionID]int{}
	for i := range members {
		m := &members[i]
		at[m.Session] = i
		out.Machines = append(out.Machines, Machine{
			Name: m.Name, ID: m.Machine.String(), Alive: s.Alive(m), JoinedAt: page.Time{Time: m.Joined},
			LastBeatAt: page.Time{Time: m.Beat},
			Silent:     max(0, s.Now.Sub(m.Beat)).Round(time.Millisecond).Seconds(), Batches: m.Batch,
			BatchMS: float64(m.Tally.Batch.Microseconds()) / 1000, Takeovers: m.Tally.Takeovers, Fenced: m.Tally.Fenced,
			Replaying: m.Tally.Replaying, RowsLeft: m.Tally.RowsLeft,
		})
	}
	for p := range s.Parts {
		part := &s.Parts[p]
		out.Counted += int64(part.Status.Counted)
		i, owned := at[part.Owner]
		if owned {
			out.Machines[i].Partitions++
		}
		if !owned || !out.Machines[i].Alive {
			out.Unowned++
		}
	}
}

// Alive returns the names of the machines that work on the crawl.
func (out *Status) Alive() []string {
	var names []string
	for i := range out.Machines {
		if out.Machines[i].Alive {
			names = append(names, out.Machines[i].Name)
		}
	}
	return names
}
