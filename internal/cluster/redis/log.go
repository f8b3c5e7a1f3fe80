package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/cluster"
)

// Commit implements [cluster.Log].
func (e *Engine) Commit(ctx context.Context, s cluster.Session, b *cluster.Batch) error {
	if err := b.Validate(); err != nil {
		return err
	}
	if text := e.full.Load(); text != nil {
		return e.classify("commit", fmt.Errorf("%w: %s", cluster.ErrFull, *text), true)
	}
	r, err := e.write(ctx, s.Crawl, "commit", commitArgs(s, b)...)
	if err == nil && len(r) == 3 { // the answer names a partition that does not fit
		err = fenceError(s, b, r)
	}
	if hasCode(err, []string{outOfMemory}) { // another machine has used what was left since the last beat
		err = fmt.Errorf("%w: %s", err, pauses)
	}
	return e.classify("commit", err, true)
}

// commitArgs are the arguments of the call, as engine.lua names them.
func commitArgs(s cluster.Session, b *cluster.Batch) []any {
	args := []any{idText(s.ID), s.ID[:], b.Number, b.Digest(), b.Number - 1, len(b.Writes), len(b.Sent),
		len(b.Received), len(b.Release), len(b.Hold), len(b.Scope)}
	for i := range b.Writes {
		w := &b.Writes[i]
		was := cluster.Part{Owner: s.ID, Epoch: w.Epoch, Head: w.After, Granted: w.Granted}
		is, id := was, ""
		if is.Head = w.Head(); len(w.Body) > 0 {
			id = idOf(is.Head)
		}
		if w.Close {
			is.Owner = cluster.SessionID{}
		}
		args = append(args, int(w.Partition), fence(&was), fence(&is), statusText(&w.Status), id, w.Epoch, w.Body)
	}
	for i := range b.Sent {
		args = append(args, int(b.Sent[i].To), b.Sent[i].Body)
	}
	for _, m := range b.Received {
		args = append(args, int(m.Partition), idText(m.Session), m.Batch+1)
	}
	for _, list := range [][]string{b.Release, b.Hold, b.Scope} {
		for _, text := range list {
			args = append(args, text)
		}
	}
	return args
}

// fenceError says why a write does not fit its partition.
func fenceError(s cluster.Session, b *cluster.Batch, r reply) error {
	var d decoder
	var p cluster.Part
	i := d.int(r.at(1))
	d.fence(&p, d.text(r.at(2)))
	if d.err != nil || i < 0 || int(i) >= len(b.Writes) {
		return usage("the server's answer about a partition cannot be read")
	}
	w := &b.Writes[i]
	// A grant that differs is an error of CheckFence only if the session owns the partition.
	if err := cluster.CheckFence(&p, s.ID, w); err != nil {
		return err
	}
	return usage("partition %d: batch %d fits and is not accepted", w.Partition, b.Number)
}

// Read implements [cluster.Log].
func (e *Engine) Read(ctx context.Context, id cluster.CrawlID, part uint8, after cluster.Place,
	limit int) ([]cluster.Row, error) {
	at := ""
	if after.Seq > 0 {
		at = idOf(after)
	}
	var d decoder
	var list []cluster.Row
	r, err := e.run(ctx, id, "read", int(part), at, limit)
	if err == nil {
		for _, v := range d.list(r.at(1)) {
			list = append(list, d.row(v))
		}
		err = d.err
	}
	if err != nil {
		return nil, e.classify("read the log", err, false)
	}
	return list, nil
}

func (d *decoder) row(v any) (row cluster.Row) {
	pair := reply(d.list(v))
	fields := reply(d.list(pair.at(1)))
	row.Place = d.placeOf(d.text(pair.at(0)))
	row.Epoch = d.uint(d.text(fields.at(1)))
	copy(row.Session[:], d.bytes(fields.at(3)))
	row.Body = d.bytes(fields.at(5))
	return row
}

// Inbox implements [cluster.Log].
func (e *Engine) Inbox(ctx context.Context, s cluster.Session, after []frontier.Mark, limit int) ([]cluster.Handover,
	error) {
	args := []any{idText(s.ID), limit}
	for _, m := range after {
		args = append(args, fmt.Sprintf("%03d:%s", m.Partition, idText(m.Session)), m.Batch+1)
	}
	var d decoder
	var list []cluster.Handover
	r, err := e.run(ctx, s.Crawl, "inbox", args...)
	if err == nil {
		for _, v := range d.list(r.at(1)) {
			list = append(list, d.handover(v))
		}
		err = d.err
	}
	if err != nil {
		return nil, e.classify("read hand-overs", err, false)
	}
	return list, nil
}

func (d *decoder) handover(v any) (h cluster.Handover) {
	row := reply(d.list(v))
	to, from, _ := strings.Cut(d.text(row.at(0)), ":")
	n, err := strconv.ParseUint(to, 10, 8)
	if err != nil {
		d.fault("a partition", to)
	}
	h.To, h.From, h.Body = uint8(n), d.id(from), d.bytes(row.at(2))
	batch, _, _ := strings.Cut(d.text(row.at(1)), "-")
	h.Batch = d.uint(batch)
	return h
}
