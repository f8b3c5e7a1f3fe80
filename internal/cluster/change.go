package cluster

// A Change is one compare-and-set of the crawl: [SetState], [SetPlan], [RaiseLevel],
// [Grant] or [TakeToken].
type Change interface{ change() }

// SetState changes the state of the crawl from one to another.
type SetState struct {
	From, To State
	Reason   string
	NewRun   bool
	// Anew means that pages and depths count anew: the level and all grants become 0. The session owns all partitions,
	// and writes to them with the new grants.
	Anew bool
	If   Condition
}

// A Condition is tested at the moment of a change.
type Condition uint8

// The conditions of a change of the state.
const (
	Always         Condition = iota
	IfComplete               // Snapshot.Complete
	IfLimitReached           // Snapshot.LimitReached
)

// SetPlan replaces the settings of the crawl, and with them its page limit, if they have
// the given version. The new version is the next one. Grants that are out stay.
type SetPlan struct {
	Version uint64
	Plan    []byte
	MaxURLs uint64 // 0 means no limit
}

// RaiseLevel raises the depth up to which URLs may be fetched, if Snapshot.MayRaise
// allows it.
type RaiseLevel struct{ From, To uint32 }

// Grant changes the number of pages that a partition may count, in state Running and
// if all grants together are within the limit. A partition gives back what it does not
// need with a To below From.
type Grant struct {
	Partition uint8
	Epoch     uint64
	From, To  uint64
}

// TakeToken makes the session the holder of a token, in state Running, if none holds
// it or if its holder has ended or expired.
type TakeToken struct{ Name string }

func (SetState) change()   {}
func (SetPlan) change()    {}
func (RaiseLevel) change() {}
func (Grant) change()      {}
func (TakeToken) change()  {}
