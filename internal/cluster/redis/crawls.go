package redis

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	driver "github.com/gomodule/redigo/redis"

	"github.com/mapwright/mapwright/internal/cluster"
)

// Create implements [cluster.Catalog]. The crawl is made first, and then its name, which may be on another node of
// several. So a name stands for a crawl that is there, or that was deleted for ever. A crawl without a name, which a
// kill between the two leaves, is not found by anybody and has no data.
func (e *Engine) Create(ctx context.Context, c cluster.Crawl, tokens ...string) error {
	args := []any{c.Name, c.Seed, c.Identity, c.Plan, c.MaxURLs}
	for _, name := range tokens {
		args = append(args, name)
	}
	_, err := e.write(ctx, c.ID, "create", args...)
	if err == nil {
		if err = e.addName(ctx, c.Name, c.ID); errors.Is(err, cluster.ErrExists) {
			if _, gone := e.write(ctx, c.ID, "delete"); gone != nil {
				err = gone // the call can be repeated
			}
		}
	}
	return e.classify("create crawl", err, false)
}

// addName gives a name to a crawl, unless another crawl has it.
func (e *Engine) addName(ctx context.Context, name string, id cluster.CrawlID) error {
	for {
		added, err := driver.Int(e.client.write(ctx, e.wait, catalog, "HSETNX", catalog, name, id.String()))
		if err != nil || added == 1 {
			return err
		}
		other, err := driver.String(e.client.do(ctx, catalog, "HGET", catalog, name))
		switch {
		case errors.Is(err, driver.ErrNil):
			continue // removed meanwhile
		case err != nil:
			return err
		case other == id.String():
			// An attempt before this one may not have waited for replicas.
			_, err = e.client.write(ctx, e.wait, catalog, "HSET", catalog, name, id.String())
			return err
		}
		var d decoder
		_, err = e.run(ctx, d.id(other), "row")
		if !errors.Is(err, cluster.ErrNoCrawl) {
			return cmp.Or(err, cluster.ErrExists)
		}
		if err := e.removeName(ctx, name, other); err != nil { // of a crawl whose deletion was interrupted
			return err
		}
	}
}

// removeScript removes a name if it is that of a crawl.
const removeScript = `if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('HDEL', KEYS[1], ARGV[1]) end`

func (e *Engine) removeName(ctx context.Context, name, id string) error {
	_, err := e.client.do(ctx, catalog, "EVAL", removeScript, 1, catalog, name, id)
	return err
}

// List implements [cluster.Catalog].
func (e *Engine) List(ctx context.Context) ([]cluster.Crawl, error) {
	var list []cluster.Crawl
	names, err := driver.StringMap(e.client.do(ctx, catalog, "HGETALL", catalog))
	for _, text := range names {
		var d decoder
		id := d.id(text)
		r, rowErr := e.run(ctx, id, "row")
		if errors.Is(rowErr, cluster.ErrNoCrawl) {
			continue // it is being deleted
		}
		if err = rowErr; err != nil {
			break
		}
		list = append(list, d.crawl(id, d.table(r.at(2)), d.text(r.at(1))))
		if err = d.err; err != nil {
			break
		}
	}
	if err != nil {
		return nil, e.classify("list crawls", err, false)
	}
	slices.SortFunc(list, func(a, b cluster.Crawl) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	return list, nil
}

// Delete implements [cluster.Catalog].
func (e *Engine) Delete(ctx context.Context, id cluster.CrawlID) error {
	var d decoder
	r, err := e.run(ctx, id, "row")
	if errors.Is(err, cluster.ErrNoCrawl) {
		return nil
	}
	if err == nil {
		if _, err = e.write(ctx, id, "delete"); err == nil {
			err = e.removeName(ctx, d.table(r.at(2))["name"], id.String())
		}
	}
	return e.classify("delete crawl", err, false)
}

// Look implements [cluster.Catalog].
func (e *Engine) Look(ctx context.Context, id cluster.CrawlID, known cluster.Known) (*cluster.Snapshot, error) {
	r, err := e.run(ctx, id, "look", known.Plan, known.Scope)
	return e.snapshot("read the crawl's state", id, r, err)
}

// snapshot reads the answer to a look or a beat.
func (e *Engine) snapshot(doing string, id cluster.CrawlID, r reply, err error) (*cluster.Snapshot, error) {
	if err != nil {
		return nil, e.classify(doing, err, false)
	}
	var d decoder
	row := d.table(r.at(3))
	s := &cluster.Snapshot{Now: d.time(d.text(r.at(1))), Crawl: d.crawl(id, row, d.text(r.at(2))),
		Waiting: min(int(d.uint(row["waiting"])), cluster.MostWaiting), Scopes: int(d.int(r.at(7)))}
	for _, v := range d.list(r.at(4)) {
		s.Members = append(s.Members, d.member(v))
	}
	slices.SortFunc(s.Members, func(a, b cluster.Member) int { return bytes.Compare(a.Session[:], b.Session[:]) })
	for name, text := range d.table(r.at(5)) {
		n, err := strconv.ParseUint(name[1:], 10, 8)
		switch {
		case err != nil:
			d.fault("a partition", name)
		case name[0] == 'f':
			d.fence(&s.Parts[n], text)
		case name[0] == 's':
			d.status(&s.Parts[n].Status, text)
		}
	}
	for name, holder := range d.table(r.at(6)) {
		s.Tokens = append(s.Tokens, cluster.Token{Name: name, Holder: d.id(holder)})
	}
	slices.SortFunc(s.Tokens, func(a, b cluster.Token) int { return strings.Compare(a.Name, b.Name) })
	for _, v := range d.list(r.at(8)) {
		s.Scope = append(s.Scope, d.text(v))
	}
	if plan, ok := r.at(9).([]byte); ok {
		s.Crawl.Plan = plan
	}
	if d.err != nil {
		return nil, e.classify(doing, d.err, false)
	}
	return s, nil
}

// Sessions implements [cluster.Catalog].
func (e *Engine) Sessions(ctx context.Context, id cluster.CrawlID) ([]cluster.Member, error) {
	var d decoder
	var list []cluster.Member
	r, err := e.run(ctx, id, "sessions")
	if err == nil {
		for _, v := range d.list(r.at(1)) {
			list = append(list, d.member(v))
		}
		err = d.err
	}
	if err != nil {
		return nil, e.classify("list the sessions", err, false)
	}
	return list, nil
}
