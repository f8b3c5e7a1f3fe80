package frontier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// sitemaps are n sitemaps of a host.
func sitemaps(n int) []Link {
	var links []Link
	for i := range n {
		links = append(links, Link{URL: mustURL(fmt.Sprintf("http://a.example/sitemap%d.xml", i)), Sitemap: true,
			Depth: 3, Source: 7})
	}
	return links
}

// Start pages go first; then sitemaps and pages take turns, whatever the priority and the depth of the pages is, and
// however little memory there is.
func TestPagesAndSitemapsTakeTurns(t *testing.T) {
	for _, memory := range []int{1, 100} {
		synctest.Test(t, func(t *testing.T) {
			store := newMemStore()
			f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true, MaxInMemory: memory}, store)
			add(t, f, sitemaps(4)...)
			add(t, f, Link{URL: mustURL("http://a.example/deep"), Depth: 5},
				Link{URL: mustURL("http://a.example/listed"), Priority: SitemapPriority(1)})
			add(t, f, seeds("http://a.example/1", "http://a.example/2")...)
			var got []string
			for {
				l, err := f.Next(t.Context())
				if err != nil {
					break
				}
				if link := l.Link(); link.Sitemap && (link.Depth != 3 || link.Source != 7 ||
					link.Key != SitemapKey(f.hasher, link.URL)) {
					t.Errorf("%+v", link)
				}
				got = append(got, l.URL().Path())
				startLease(t, l)
				done(t, l, ok())
			}
			want := []string{"/1", "/2", "/sitemap0.xml", "/listed", "/sitemap1.xml", "/deep", "/sitemap2.xml",
				"/sitemap3.xml"}
			if !slices.Equal(got, want) {
				t.Errorf("memory for %d\n got %v\nwant %v", memory, got, want)
			}
			if st := f.Stats(); st.Finished != 4 || st.Added != 4 || st.Tickets != 0 && st.Tickets != 4 {
				t.Errorf("%+v", st)
			}
			checkEmpty(t, f, store)
		})
	}
}

// A sitemap and a page with the same URL are two links, each recorded once.
func TestSitemapAndPageWithOneURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true}, newMemStore())
		page, sitemap := Link{URL: mustURL("http://a.example/x")},
			Link{URL: mustURL("http://a.example/x"), Sitemap: true}
		for i, want := range []int{2, 0} {
			if n, err := f.Add(t.Context(), []Link{page, sitemap, sitemap}); n != want || err != nil {
				t.Errorf("time %d: %d are new, %v, want %d", i, n, err, want)
			}
		}
		for _, want := range []Kind{KindPage, KindSitemap} {
			if l := next(t, f); l.Kind() != want {
				t.Errorf("a %v, want a %v", l.Kind(), want)
			} else {
				done(t, l, ok())
			}
		}
	})
}

// Sitemaps cost no page tickets. When all tickets are used, no further sitemap is read: the crawl is at its limit.
func TestSitemapsAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: fast(1), MaxURLs: 2}, newMemStore())
		add(t, f, sitemaps(10)...)
		add(t, f, seeds("http://a.example/1")...)
		add(t, f, Link{URL: mustURL("http://a.example/2"), Priority: 3})
		var kinds []Kind
		for {
			l, err := f.Next(t.Context())
			if err != nil {
				if !errors.Is(err, ErrLimit) {
					t.Errorf("%v, want %v", err, ErrLimit)
				}
				break
			}
			kinds = append(kinds, l.Kind())
			startLease(t, l)
			r := ok()
			r.RobotsUntil = time.Now().Add(time.Hour)
			done(t, l, r)
		}
		if want := []Kind{KindRobots, KindPage, KindSitemap, KindPage}; !slices.Equal(kinds, want) {
			t.Errorf("leases %v, want %v", kinds, want)
		}
		if st := f.Stats(); st.Sitemaps != 9 || st.Unwanted != 0 || st.Pending != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A host that has had all its pages still has its sitemaps read: they may name pages of other hosts.
func TestSitemapsOfALimitedHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true, MaxURLsPerHost: 1}, newMemStore())
		add(t, f, seeds("http://a.example/1", "http://a.example/2")...)
		add(t, f, sitemaps(3)...)
		var kinds []Kind
		for {
			l, err := f.Next(t.Context())
			if err != nil {
				break
			}
			kinds = append(kinds, l.Kind())
			startLease(t, l)
			if len(kinds) == 3 {
				done(t, l, Result{Class: pace.ClassServerError, Finish: &Finish{}}) // tried again
				continue
			}
			done(t, l, ok())
		}
		if want := []Kind{KindPage, KindSitemap, KindSitemap, KindSitemap, KindSitemap}; !slices.Equal(kinds, want) {
			t.Errorf("leases %v, want %v", kinds, want)
		}
	})
}

// With SkipSitemaps the crawl neither leases sitemaps nor waits for them.
func TestSkipSitemaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, levels := range []bool{false, true} {
			store := newMemStore()
			f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true, SkipSitemaps: true, LevelByLevel: levels}, store)
			add(t, f, sitemaps(3)...)
			add(t, f, seeds("http://a.example/1")...)
			add(t, f, Link{URL: mustURL("http://a.example/2"), Depth: 1})
			for range 2 {
				l := next(t, f)
				if l.Kind() != KindPage {
					t.Fatalf("a %v", l.Kind())
				}
				startLease(t, l)
				done(t, l, ok())
			}
			if _, err := f.Next(t.Context()); !errors.Is(err, ErrDrained) {
				t.Errorf("%v, want %v", err, ErrDrained)
			}
			if st := f.Stats(); st.Sitemaps != 3 || st.Unwanted != 3 {
				t.Errorf("%+v", st)
			}
			checkInvariants(t, f)
		}
	})
}

// Sitemaps that are held stay queued: pages are leased, the crawl is not drained, and the end of the hold wakes a call
// that waits.
func TestHoldSitemaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, levels := range []bool{false, true} {
			f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true, LevelByLevel: levels}, newMemStore())
			f.HoldSitemaps(true)
			add(t, f, sitemaps(2)...)
			add(t, f, seeds("http://a.example/1")...)
			add(t, f, Link{URL: mustURL("http://b.example/2"), Depth: 1})
			pages := int64(2)
			if levels {
				pages = 1 // the other waits until the sitemaps are read
			}
			if st := f.Stats(); st.Open != pages || st.Sitemaps != 2 || st.Unwanted != 0 {
				t.Errorf("%+v", st)
			}
			for range pages {
				l := next(t, f)
				if l.Kind() != KindPage {
					t.Fatalf("a %v", l.Kind())
				}
				startLease(t, l)
				done(t, l, ok())
			}
			leased := make(chan *Lease)
			go func() { leased <- next(t, f) }()
			synctest.Wait()
			if st := f.Stats(); st.Open != 0 || st.Idle != 1 || st.Hosts["page limit"] != 1 {
				t.Errorf("%+v", st)
			}
			f.HoldSitemaps(false)
			l := <-leased
			for left := 4 - pages; ; left-- {
				startLease(t, l)
				done(t, l, ok())
				if left == 1 {
					break
				}
				l = next(t, f)
			}
			if _, err := f.Next(t.Context()); !errors.Is(err, ErrDrained) {
				t.Errorf("%v, want %v", err, ErrDrained)
			}
			checkInvariants(t, f)
		}
	})
}

// Sitemaps that were queued when a run ended are leased by the next one, in flight or not.
func TestResumeSitemaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		o := Options{Pace: fast(1), IgnoreRobots: true, Seed: 5}
		f := newTest(t, o, store)
		add(t, f, sitemaps(5)...)
		l := next(t, f)
		startLease(t, l)
		done(t, l, ok())
		if err := next(t, f).RecordInFlight(); err != nil || store.Inflight() != 1 { // never done
			t.Errorf("%d are in flight, want the sitemap; %v", store.Inflight(), err)
		}
		f.Close()
		f = newTest(t, o, store)
		if err := f.Resume(t.Context(), store.Backlogs(context.Background(), 0, 255)); err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			l := next(t, f)
			if want := fmt.Sprintf("/sitemap%d.xml", i+1); l.Kind() != KindSitemap || l.URL().Path() != want {
				t.Errorf("a %v %s, want %s", l.Kind(), l.URL(), want)
			}
			startLease(t, l)
			done(t, l, ok())
		}
		checkEmpty(t, f, store)
	})
}

// vouchedStore notes the vouchers that are committed.
type vouchedStore struct {
	*memStore
	vouchers []Voucher
	alone    bool // some came without a link or visit of their sitemap
}

func (s *vouchedStore) Commit(recs ...Record) (Position, error) {
	for i := range recs {
		for _, v := range recs[i].Vouchers {
			s.vouchers = append(s.vouchers, v)
			has := func(l Link) bool { return l.Key == v.Key && max(1, l.Visit) == v.Visit }
			s.alone = s.alone || !slices.ContainsFunc(recs[i].Links, has) && !slices.ContainsFunc(recs[i].Visits, has)
		}
	}
	return s.memStore.Commit(recs...)
}

// Vouchers are in the record that queues the sitemap, for the visit that it queues.
func TestVouchersAreRecordedWithTheirVisit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &vouchedStore{memStore: newMemStore()}
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true}, store)
		l := sitemaps(1)[0]
		l.Vouchers = []weburl.HostID{3, 4}
		add(t, f, l, l)
		add(t, f, l) // known
		lease := next(t, f)
		startLease(t, lease)
		done(t, lease, ok())
		l.Visit, l.Vouchers = 2, []weburl.HostID{5}
		if err := f.Revisit(t.Context(), []Link{l}); err != nil {
			t.Fatal(err)
		}
		k := SitemapKey(f.hasher, l.URL)
		want := []Voucher{{k, 3, 1}, {k, 4, 1}, {k, 5, 2}}
		if !slices.Equal(store.vouchers, want) || store.alone {
			t.Errorf("vouchers %v, want %v; without their sitemap: %v", store.vouchers, want, store.alone)
		}
		lease = next(t, f)
		if link := lease.Link(); lease.Kind() != KindSitemap || link.Visit != 2 {
			t.Errorf("%+v", link)
		}
		startLease(t, lease)
		done(t, lease, ok())
		checkEmpty(t, f, store.memStore)
	})
}
