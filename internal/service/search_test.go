package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// insertCrawls makes crawls of an account at one time, and returns their ids as a list has them.
func (ts *testService) insertCrawls(account string, all ...Submission) (ids []string) {
	ts.t.Helper()
	err := ts.Write(ts.t.Context(), func(tx *Tx) error {
		for _, sub := range all {
			r := &row{Crawl: Crawl{ID: NewID(), Account: account, State: Queued, Plan: "default", Name: sub.Name,
				Labels: sub.Labels}}
			r.setStarts(sub.StartURLs)
			if err := r.insert(tx, r.encodeInput()); err != nil {
				return err
			}
			ids = append(ids, r.ID)
		}
		return nil
	})
	if err != nil {
		ts.t.Fatal(err)
	}
	slices.Sort(ids)
	slices.Reverse(ids)
	return ids
}

// listAll reads all parts of a list.
func (ts *testService) listAll(f CrawlFilter) (ids []string, parts int) {
	ts.t.Helper()
	for ; parts == 0 || f.Cursor != ""; parts++ {
		part, err := ts.Crawls.List(ts.t.Context(), ts.admin, f)
		if err != nil {
			ts.t.Fatal(err)
		}
		for _, c := range part.Items {
			ids = append(ids, c.ID)
		}
		f.Cursor = part.NextCursor
	}
	return ids, parts
}

func TestSearchOfCrawls(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{})
	many := "https://h.test/?" + strings.Repeat("&", 4000)
	ts.insertCrawls(ts.admin.Account.ID,
		Submission{Name: "Überblick 100%", Labels: []string{"News", "a_b"}, StartURLs: []string{"https://a.test/"}},
		Submission{Name: "other", Labels: []string{`say "x"`}, StartURLs: []string{"https://b.test/?x=1&y=2",
			"https://c.test/PATH"}},
		Submission{StartURLs: []string{many}},
		Submission{StartURLs: []string{"https://user:secret@d.test/"}}, // as earlier versions stored it
	)
	for _, c := range []struct {
		filter CrawlFilter
		want   int
	}{
		{CrawlFilter{Name: "überBLICK"}, 1}, {CrawlFilter{Name: "0%"}, 1}, {CrawlFilter{Name: "k%1"}, 0},
		{CrawlFilter{Name: "x=1&y"}, 1}, {CrawlFilter{Name: "c.test/path"}, 1}, {CrawlFilter{Name: ".test"}, 4},
		{CrawlFilter{Name: strings.Repeat("&", maxName)}, 1}, {CrawlFilter{Name: `\u0026`}, 0},
		{CrawlFilter{Name: `","`}, 0}, {CrawlFilter{Name: "secret"}, 0},
		{CrawlFilter{Label: "news"}, 1}, {CrawlFilter{Label: "new"}, 0}, {CrawlFilter{Label: "a_b"}, 1},
		{CrawlFilter{Label: "aXb"}, 0}, {CrawlFilter{Label: `say "x"`}, 1},
		{CrawlFilter{Label: "News", Name: "a.test"}, 1}, {CrawlFilter{Label: "News", Name: "b.test"}, 0},
		{CrawlFilter{Name: ".test", States: []State{Queued}}, 4}, {CrawlFilter{Name: ".test", States: []State{Failed}}, 0},
	} {
		if got, _ := ts.listAll(c.filter); len(got) != c.want {
			t.Errorf("%+v: %q, want %d", c.filter, got, c.want)
		}
	}
	long := strings.Repeat("a", maxName+1)
	_, err := ts.Crawls.List(t.Context(), ts.admin, CrawlFilter{Name: long, Label: long})
	if e := (*Error)(nil); !errors.As(err, &e) || e.Code != ErrInvalid || len(e.Fields) != 2 ||
		e.Fields[0].Field != "q" || e.Fields[1].Field != "label" {
		t.Errorf("texts that are too long: %v", err)
	}
}

// The parts of a search have each crawl once and in order, wherever the search begins to read further crawls.
func TestPartsOfASearch(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{})
	var all []Submission
	for i := range 2*searchedAtOnce + 50 {
		all = append(all, Submission{Name: fmt.Sprintf("name %d", i), StartURLs: []string{"https://a.test/"}})
	}
	want := ts.insertCrawls(ts.admin.Account.ID, all...)
	for limit, parts := range map[int]int{len(want): 1, 1000: 1, searchedAtOnce: 3, 50: 5, 49: 6} {
		if got, n := ts.listAll(CrawlFilter{Name: "NAME", Limit: limit}); !slices.Equal(got, want) || n != parts {
			t.Errorf("limit %d: %d crawls in %d parts, want %d in %d", limit, len(got), n, len(want), parts)
		}
	}
}

// However many searches there are, some readers of the database are left to others, a search whose request has gone
// ends, and one that takes too long says where to go on.
func TestSearchesLeaveReaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ts := openService(t, Options{RecordsOnly: true})
		searching := ts.Crawls.searching
		if cap(searching) >= Readers {
			t.Fatalf("%d searches at once, with %d readers", cap(searching), Readers)
		}
		caller := func(name string) *Caller {
			account, err := ts.Accounts.Create(t.Context(), ts.admin, Account{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			return &Caller{Account: account, System: "test", Scopes: []Scope{ScopeRead}}
		}
		all := make([]Submission, 2*searchedAtOnce)
		for i := range all {
			all[i].StartURLs = []string{"https://a.test/"}
		}
		for range cap(searching) {
			searching <- struct{}{} // these search now
		}
		ctx, leave := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			c := caller(name)
			ids := ts.insertCrawls(c.Account.ID, all...)
			for i := range Readers {
				asking.Go(func() {
					if i == 0 {
						if _, err := ts.Crawls.List(ctx, c, CrawlFilter{Name: "b.test"}); !errors.Is(err, context.Canceled) {
							t.Errorf("a search whose request has gone: %v", err)
						}
						return
					}
					f := CrawlFilter{Name: "b.test"}
					part, err := ts.Crawls.List(t.Context(), c, f)
					if err != nil || len(part.Items) != 0 || !strings.HasSuffix(part.NextCursor, ids[searchedAtOnce-1]) {
						t.Errorf("a search that waited for longer than a second: %+v, %v", part, err)
						return
					}
					f.Cursor = part.NextCursor
					for parts := 1; f.Cursor != ""; parts++ {
						if part, err = ts.Crawls.List(t.Context(), c, f); err != nil || parts > 2 {
							t.Errorf("the rest of the search: %+v, %v", part, err)
							return
						}
						f.Cursor = part.NextCursor
					}
				})
			}
		}
		synctest.Wait()
		third := caller("c")
		id := ts.insertCrawls(third.Account.ID, all[0])[0]
		if _, err := ts.Crawls.Get(t.Context(), third, id); err != nil {
			t.Error(err)
		}
		if list, err := ts.Crawls.List(t.Context(), third, CrawlFilter{}); err != nil || len(list.Items) != 1 {
			t.Errorf("%+v, %v", list, err)
		}
		leave()
		time.Sleep(searchTime) // the bubble's
		for range cap(searching) {
			<-searching
		}
		asking.Wait()
	})
}
