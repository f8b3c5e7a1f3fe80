package redis

import (
	"context"
	"slices"
	"strconv"

	"github.com/mapwright/mapwright/internal/cluster"
)

// Join implements [cluster.Members].
func (e *Engine) Join(ctx context.Context, s cluster.Session) error {
	_, err := e.write(ctx, s.Crawl, "join", idText(s.ID), idText(s.Machine), s.Name)
	return e.classify("join the crawl", err, false)
}

// Beat implements [cluster.Members].
func (e *Engine) Beat(ctx context.Context, s cluster.Session, known cluster.Known) (*cluster.Snapshot, error) {
	e.measure(ctx, s.Crawl)
	r, err := e.write(ctx, s.Crawl, "beat", idText(s.ID), tallyText(&s.Tally), known.Plan, known.Scope)
	return e.snapshot("beat", s.Crawl, r, err)
}

// Leave implements [cluster.Members].
func (e *Engine) Leave(ctx context.Context, s cluster.Session) error {
	_, err := e.write(ctx, s.Crawl, "leave", idText(s.ID), tallyText(&s.Tally))
	return e.classify("leave the crawl", err, false)
}

// Claim implements [cluster.Members].
func (e *Engine) Claim(ctx context.Context, s cluster.Session, parts []uint8) ([]cluster.Claimed, error) {
	parts = slices.Clone(parts)
	slices.Sort(parts)
	args := []any{idText(s.ID)}
	for _, p := range slices.Compact(parts) {
		args = append(args, int(p))
	}
	var d decoder
	var list []cluster.Claimed
	r, err := e.write(ctx, s.Crawl, "claim", args...)
	if err == nil {
		for _, v := range d.list(r.at(1)) {
			list = append(list, d.claimed(v))
		}
		err = d.err
	}
	if err != nil {
		return nil, e.classify("claim partitions", err, false)
	}
	return list, nil
}

func (d *decoder) claimed(v any) (c cluster.Claimed) {
	row := reply(d.list(v))
	n, err := strconv.ParseUint(d.text(row.at(0)), 10, 8)
	if err != nil {
		d.fault("a partition", row.at(0))
	}
	c.Partition = uint8(n)
	d.fence(&c.Part, d.text(row.at(1)))
	d.status(&c.Status, d.text(row.at(2)))
	c.LastBeat = d.time(d.text(row.at(3)))
	return c
}

// Change implements [cluster.Members].
func (e *Engine) Change(ctx context.Context, s cluster.Session, ch cluster.Change) (bool, error) {
	var call string
	args := []any{idText(s.ID)}
	switch ch := ch.(type) {
	case cluster.SetState:
		condition := map[cluster.Condition]string{cluster.IfComplete: "complete", cluster.IfLimitReached: "limit"}[ch.If]
		call, args = "state", append(args, string(ch.From), string(ch.To), ch.Reason, ch.NewRun, condition, ch.Anew)
	case cluster.SetPlan:
		call, args = "plan", append(args, ch.Version, ch.Version+1, ch.Plan, ch.MaxURLs)
	case cluster.RaiseLevel:
		call, args = "level", append(args, ch.From, ch.To)
	case cluster.Grant:
		call, args = "grant", append(args, int(ch.Partition), ch.Epoch, ch.From, ch.To)
	case cluster.TakeToken:
		call, args = "token", append(args, ch.Name)
	default:
		return false, e.classify("change the crawl", usage("unknown change %T", ch), false)
	}
	var d decoder
	done := false
	r, err := e.write(ctx, s.Crawl, call, args...)
	if err == nil {
		done = d.int(r.at(1)) == 1
		err = d.err
	}
	return done, e.classify("change the crawl", err, false)
}
