package service

import (
	"context"
	"slices"
	"strings"
	"time"
)

const (
	searchTime     = time.Second // how long one search reads, of crawls or of the pages of a crawl
	searchedAtOnce = 100         // crawls that a search reads with one query
	// mostSearching is how many searches of all accounts read crawls at once. The other readers of the database are for
	// the dispatcher, schedules, webhooks and requests that read little.
	mostSearching = Readers / 2
)

// place is where a crawl is in a list: lists are ordered by at, then by id, the greatest first.
type place struct {
	at int64 // when the crawl was made
	id string
}

// check names the texts of a filter that are longer than what they are compared with can be.
func (f *CrawlFilter) check() error {
	faults := []FieldError{}
	for _, text := range []struct{ field, value string }{{"q", f.Name}, {"label", f.Label}} {
		if len(text.value) > maxName {
			faults = append(faults, tooLong(text.field, text.value))
		}
	}
	return Invalid("the query", faults)
}

// places finds the first crawls after a place that a filter selects, at most limit. next is the place after which there
// may be more, or nil.
func (c *Crawls) places(ctx context.Context, f *CrawlFilter, after place, limit int) (found []place, next *place,
	err error) {
	query, args := "FROM crawl WHERE 1 = 1", []any{}
	where := func(condition string, values ...any) {
		query, args = query+" AND "+condition, append(args, values...)
	}
	if f.Account != "" {
		where("account = ?", f.Account)
	}
	if len(f.States) > 0 {
		values := make([]any, len(f.States))
		for i, s := range f.States {
			values[i] = s
		}
		where("state IN (?"+strings.Repeat(", ?", len(f.States)-1)+")", values...)
	}
	if f.Schedule != "" {
		where("schedule = ?", f.Schedule)
	}
	query += " AND (created_at, id) < (?, ?) ORDER BY created_at DESC, id DESC LIMIT ?"
	if f.Label != "" || f.Name != "" {
		return c.search(ctx, f, query, args, after, limit)
	}
	found, err = Collect(ctx, c.s.db.Read(), func(p *place) []any { return []any{&p.at, &p.id} },
		"SELECT created_at, id "+query, append(args, after.at, after.id, limit+1)...)
	if len(found) > limit {
		found, next = found[:limit], &found[limit-1]
	}
	return found, next, err
}

// search is places for a filter with a label or a name, which no index has. It compares texts here: the time of LIKE is
// the product of the lengths of text and pattern. It has many short queries, so that others get a reader soon, and ends
// after searchTime.
func (c *Crawls) search(ctx context.Context, f *CrawlFilter, query string, args []any, after place, limit int) (
	found []place, next *place, err error) {
	name, until := strings.ToLower(f.Name), time.Now().Add(searchTime)
	for {
		some, err := c.readTexts(ctx, query, slices.Concat(args, []any{after.at, after.id, searchedAtOnce}))
		if err != nil {
			return nil, nil, err
		}
		for i := range some {
			if !some[i].match(f.Label, name) {
				continue
			}
			if len(found) == limit {
				return found, &found[limit-1], nil
			}
			found = append(found, some[i].place)
		}
		if len(some) < searchedAtOnce {
			return found, nil, nil
		}
		if after = some[len(some)-1].place; !time.Now().Before(until) {
			return found, &after, nil
		}
	}
}

// searchTexts are the texts of a crawl in which users can search.
type searchTexts struct {
	place
	name           string
	labels, starts []string
}

// readTexts reads the texts of crawls when it is the search's turn.
func (c *Crawls) readTexts(ctx context.Context, query string, args []any) ([]searchTexts, error) {
	select {
	case c.searching <- struct{}{}:
		defer func() { <-c.searching }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return Collect(ctx, c.s.db.Read(), func(t *searchTexts) []any {
		return []any{&t.at, &t.id, &t.name, &t.labels, &t.starts}
	}, "SELECT created_at, id, name, labels_json, first_starts_json "+query, args...)
}

// match says whether a crawl has the label, and whether its name or one of the start URLs that are shown contains a
// text, which is in lower case. Either may be empty.
func (t *searchTexts) match(label, text string) bool {
	if label != "" && !slices.ContainsFunc(t.labels, func(l string) bool { return strings.EqualFold(l, label) }) {
		return false
	}
	WithoutUserinfo(t.starts)
	contains := func(in string) bool { return strings.Contains(strings.ToLower(in), text) }
	return contains(t.name) || slices.ContainsFunc(t.starts, contains)
}
