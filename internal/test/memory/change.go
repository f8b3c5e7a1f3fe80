package memory

import (
	"bytes"
	"fmt"
	"time"

	"github.com/mapwright/mapwright/internal/cluster"
)

// change compares and sets.
func (c *crawl) change(id cluster.SessionID, ch cluster.Change, now time.Time) (bool, error) {
	s, err := c.living(id)
	if err != nil {
		return false, err
	}
	row := &c.row
	switch ch := ch.(type) {
	case cluster.SetState:
		return c.setState(id, ch, now), nil
	case cluster.SetPlan:
		if row.PlanVersion == ch.Version+1 && bytes.Equal(row.Plan, ch.Plan) && row.MaxURLs == ch.MaxURLs {
			return true, nil
		}
		if row.PlanVersion != ch.Version {
			return false, nil
		}
		row.Plan, row.MaxURLs = bytes.Clone(ch.Plan), ch.MaxURLs
		row.PlanVersion++
		return true, nil
	case cluster.RaiseLevel:
		if row.Level == ch.To {
			return true, nil
		}
		if row.Level != ch.From || ch.To < ch.From || !c.snapshot(now, cluster.Known{}).MayRaise(ch.To) {
			return false, nil
		}
		row.Level = ch.To
		return true, nil
	case cluster.Grant:
		return c.grant(id, ch)
	case cluster.TakeToken:
		holder, ok := c.tokens[ch.Name]
		switch {
		case !ok:
			return false, nil
		case holder == id:
			return true, nil
		case row.State != cluster.Running || !c.release(holder, s, now):
			return false, nil
		}
		c.tokens[ch.Name] = id
		return true, nil
	}
	return false, fmt.Errorf("unknown change %T", ch)
}

func (c *crawl) setState(id cluster.SessionID, ch cluster.SetState, now time.Time) bool {
	row := &c.row
	if row.State == ch.To && row.Reason == ch.Reason && c.decidedBy == id {
		return true
	}
	if row.State != ch.From {
		return false
	}
	snap := c.snapshot(now, cluster.Known{})
	switch {
	case ch.If == cluster.IfComplete && !snap.Complete(), ch.If == cluster.IfLimitReached && !snap.LimitReached():
		return false
	}
	c.countTime(now)
	row.State, row.Reason, c.decidedBy = ch.To, ch.Reason, id
	if ch.NewRun {
		row.Run++
		row.Begun = cluster.Begun{At: now, Used: row.Used, Counted: snap.Counted()}
	}
	if ch.Anew {
		row.Level, row.Granted = 0, 0
		for p := range c.parts {
			c.parts[p].Granted = 0
		}
	}
	return true
}

func (c *crawl) grant(id cluster.SessionID, ch cluster.Grant) (bool, error) {
	p := &c.parts[ch.Partition]
	if p.Owner != id || p.Epoch != ch.Epoch {
		return false, cluster.ErrFenced
	}
	if p.Granted == ch.To {
		return true, nil
	}
	granted := c.row.Granted - ch.From + ch.To
	if p.Granted != ch.From || c.row.State != cluster.Running || granted > c.row.MaxURLs {
		return false, nil
	}
	p.Granted, c.row.Granted = ch.To, granted
	return true, nil
}
