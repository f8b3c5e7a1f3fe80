package memory

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mapwright/mapwright/internal/cluster"
)

// A crawl is everything of one. The mutex of the engine guards it.
type crawl struct {
	row       cluster.Crawl
	decidedBy cluster.SessionID // who set the state
	active    time.Time         // the last beat of any session
	sessions  map[cluster.SessionID]*session
	parts     [cluster.Partitions]part
	logs      [cluster.Partitions][]cluster.Row
	handovers []cluster.Handover // sorted
	tokens    map[string]cluster.SessionID
	scope     []string
}

type session struct {
	cluster.Member
	digest uint64 // of the last batch
}

type part struct {
	cluster.Part
	lastBeat time.Time
}

func newCrawl(row cluster.Crawl, tokens []string, now time.Time) *crawl {
	c := &crawl{sessions: map[cluster.SessionID]*session{}, tokens: map[string]cluster.SessionID{}}
	c.row = cluster.Crawl{ID: row.ID, Name: row.Name, Seed: row.Seed, Identity: row.Identity,
		Plan: bytes.Clone(row.Plan), MaxURLs: row.MaxURLs}
	c.row.Created, c.row.PlanVersion, c.row.State, c.row.Run, c.row.Begun.At = now, 1, cluster.Running, 1, now
	for p := range c.parts {
		c.parts[p].Status = cluster.PartStatus{Idle: true, Least: cluster.NoDepth}
	}
	for _, name := range tokens {
		c.tokens[name] = cluster.SessionID{}
	}
	return c
}

// clone shares what is never changed: bodies and plans.
func (c *crawl) clone() *crawl {
	n := *c
	n.sessions = map[cluster.SessionID]*session{}
	for id, s := range c.sessions {
		copied := *s
		n.sessions[id] = &copied
	}
	for p := range n.logs {
		n.logs[p] = slices.Clone(c.logs[p])
	}
	n.handovers, n.tokens, n.scope = slices.Clone(c.handovers), maps.Clone(c.tokens), slices.Clone(c.scope)
	return &n
}

func (c *crawl) snapshot(now time.Time, known cluster.Known) *cluster.Snapshot {
	s := &cluster.Snapshot{Now: now, Crawl: c.rowAt(now), Waiting: min(len(c.handovers), cluster.MostWaiting),
		Scopes: len(c.scope)}
	if s.Crawl.Plan = nil; known.Plan != c.row.PlanVersion {
		s.Crawl.Plan = bytes.Clone(c.row.Plan)
	}
	if known.Scope < len(c.scope) {
		s.Scope = slices.Clone(c.scope[known.Scope:])
	}
	for _, m := range c.sessions {
		if !m.Ended {
			s.Members = append(s.Members, m.Member)
		}
	}
	slices.SortFunc(s.Members, func(a, b cluster.Member) int { return bytes.Compare(a.Session[:], b.Session[:]) })
	for p := range c.parts {
		s.Parts[p] = c.parts[p].Part
		s.Parts[p].Status.Counts = bytes.Clone(c.parts[p].Status.Counts)
	}
	for _, name := range slices.Sorted(maps.Keys(c.tokens)) {
		s.Tokens = append(s.Tokens, cluster.Token{Name: name, Holder: c.tokens[name]})
	}
	return s
}

// living returns a session that has not ended.
func (c *crawl) living(id cluster.SessionID) (*session, error) {
	switch s := c.sessions[id]; {
	case s == nil:
		return nil, cluster.ErrRolledBack
	case s.Ended:
		return nil, cluster.ErrFenced
	default:
		return s, nil
	}
}

func (c *crawl) join(s cluster.Session, now time.Time) error {
	if c.sessions[s.ID] != nil {
		_, err := c.living(s.ID)
		return err
	}
	c.countTime(now)
	c.sessions[s.ID] = &session{Member: cluster.Member{
		Session: s.ID, Machine: s.Machine, Name: s.Name, Joined: now, Since: now, Beat: now, Beats: 1,
	}}
	return nil
}

func (c *crawl) beat(by cluster.Session, now time.Time) error {
	s, err := c.living(by.ID)
	if err != nil {
		return err
	}
	c.countTime(now)
	if now.Sub(s.Beat) > cluster.Lease {
		s.Since = now
	}
	s.Beat, s.Tally = now, by.Tally
	s.Beats++
	return nil
}

// countTime adds the time since the last call, if a machine was there.
func (c *crawl) countTime(now time.Time) { c.row, c.active = c.rowAt(now), now }

// rowAt is the row with the time that is used until now.
func (c *crawl) rowAt(now time.Time) cluster.Crawl {
	row := c.row
	if gap := now.Sub(c.active); row.State == cluster.Running && gap > 0 && gap <= cluster.Lease && c.hasMembers() {
		row.Used += gap
	}
	return row
}

// hasMembers reports whether there is a session that has not ended.
func (c *crawl) hasMembers() bool {
	for _, s := range c.sessions {
		if !s.Ended {
			return true
		}
	}
	return false
}

// leave ends a session for itself, unless it has ended.
func (c *crawl) leave(by cluster.Session, now time.Time) {
	s := c.sessions[by.ID]
	if s == nil {
		return
	}
	c.countTime(now)
	s.Left, s.Ended, s.Tally = s.Left || !s.Ended, true, by.Tally
}

// allSessions returns the sessions in the order in which they joined.
func (c *crawl) allSessions() []cluster.Member {
	var list []cluster.Member
	for _, s := range c.sessions {
		list = append(list, s.Member)
	}
	slices.SortFunc(list, func(a, b cluster.Member) int {
		return cmp.Or(a.Joined.Compare(b.Joined), bytes.Compare(a.Session[:], b.Session[:]))
	})
	return list
}

// release reports whether a session has nothing any more: it is none, has ended, or
// has expired and is ended by this call, which s makes.
func (c *crawl) release(owner cluster.SessionID, s *session, now time.Time) bool {
	o := c.sessions[owner]
	if o == nil || o.Ended {
		return true
	}
	expired := now.Sub(o.Beat) > cluster.Lease
	mayEnd := now.Sub(s.Beat) <= cluster.Lease && now.Sub(s.Since) >= cluster.Lease
	if expired && mayEnd && o != s {
		o.Ended = true
		return true
	}
	return false
}

func (c *crawl) claim(id cluster.SessionID, parts []uint8, now time.Time) ([]cluster.Claimed, error) {
	s, err := c.living(id)
	if err != nil {
		return nil, err
	}
	parts = slices.Clone(parts)
	slices.Sort(parts)
	var claimed []cluster.Claimed
	for _, n := range slices.Compact(parts) {
		p := &c.parts[n]
		if p.Owner != id {
			if !c.release(p.Owner, s, now) {
				continue
			}
			if o := c.sessions[p.Owner]; o != nil && o.Beat.After(p.lastBeat) {
				p.lastBeat = o.Beat
			}
			p.Owner = id
			p.Epoch++
		}
		claimed = append(claimed, cluster.Claimed{Partition: n, Part: p.Part, LastBeat: p.lastBeat})
	}
	return claimed, nil
}

func (c *crawl) commit(id cluster.SessionID, b *cluster.Batch) error {
	s, err := c.living(id)
	switch {
	case err != nil:
		return err
	case b.Number == s.Batch && b.Digest() == s.digest:
		return nil
	case b.Number == s.Batch:
		return fmt.Errorf("batch %d was committed with another content", b.Number)
	case b.Number > s.Batch+1:
		return cluster.ErrRolledBack
	case b.Number <= s.Batch:
		return fmt.Errorf("batch %d comes after batch %d", b.Number, s.Batch)
	}
	for i := range b.Writes {
		w := &b.Writes[i]
		if err := cluster.CheckFence(&c.parts[w.Partition].Part, id, w); err != nil {
			return err
		}
	}
	for _, name := range b.Release {
		if holder, ok := c.tokens[name]; !ok || holder != id {
			return fmt.Errorf("token %q is not held: %w", name, cluster.ErrFenced)
		}
	}
	for _, name := range b.Hold {
		if _, ok := c.tokens[name]; ok {
			return fmt.Errorf("token %q exists: %w", name, cluster.ErrFenced)
		}
	}

	s.Batch, s.digest = b.Number, b.Digest()
	for i := range b.Writes {
		c.write(id, &b.Writes[i])
	}
	c.handovers = slices.DeleteFunc(c.handovers, func(h cluster.Handover) bool { return isReceived(&h, b.Received) })
	for _, h := range b.Sent {
		c.handovers = append(c.handovers, cluster.Handover{To: h.To, From: id, Batch: b.Number,
			Body: bytes.Clone(h.Body)})
	}
	slices.SortFunc(c.handovers, func(a, b cluster.Handover) int {
		return cmp.Or(cmp.Compare(a.To, b.To), bytes.Compare(a.From[:], b.From[:]), cmp.Compare(a.Batch, b.Batch))
	})
	for _, name := range b.Hold {
		c.tokens[name] = id
	}
	for _, name := range b.Release {
		delete(c.tokens, name)
	}
	c.scope = append(c.scope, b.Scope...)
	return nil
}

func (c *crawl) write(id cluster.SessionID, w *cluster.Write) {
	p := &c.parts[w.Partition]
	if len(w.Body) > 0 {
		p.Head = w.Head()
		c.logs[w.Partition] = append(c.logs[w.Partition], cluster.Row{Place: p.Head, Epoch: w.Epoch, Session: id,
			Body: bytes.Clone(w.Body)})
	}
	p.Status = w.Status
	p.Status.Counts = bytes.Clone(w.Status.Counts)
	if w.Close {
		p.Owner = cluster.SessionID{}
	}
}
