package frontier

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// A namesStore keeps in one line for each record what it says of names: new links with their sources, names, facts and
// marks.
type namesStore struct {
	*memStore
	urls  map[weburl.Key]string
	lines []string
}

func (s *namesStore) Commit(recs ...Record) (Position, error) {
	for _, r := range recs {
		var words []string
		for _, l := range r.Links {
			s.urls[l.Key] = l.URL.Path()
			words = append(words, fmt.Sprintf("%s from %d", l.URL.Path(), l.Source))
		}
		for _, n := range r.Named {
			text := fmt.Sprintf("%s in %d", s.urls[n.Key], n.Generation)
			if n.Linked {
				text += " linked"
			}
			if n.Listed {
				text += " listed"
			}
			if !n.LastMod.IsZero() {
				text += fmt.Sprint(" ", n.LastMod.Year())
			}
			words = append(words, text)
		}
		for _, f := range r.Facts {
			words = append(words, f.Name)
		}
		for _, m := range r.Marks {
			words = append(words, fmt.Sprintf("mark %d", m.Batch))
		}
		for _, l := range r.Sent {
			words = append(words, fmt.Sprintf("sent %s from %d", l.URL.Path(), l.Source))
		}
		if len(words) > 0 {
			s.lines = append(s.lines, strings.Join(words, ", "))
		}
	}
	return s.memStore.Commit(recs...)
}

// want compares what was recorded since the last call.
func (s *namesStore) want(t *testing.T, what string, lines ...string) {
	t.Helper()
	if !slices.Equal(s.lines, lines) {
		t.Errorf("%s: recorded %q, want %q", what, s.lines, lines)
	}
	s.lines = nil
}

// Sources of links in these tests; see testNames.
const (
	fromStart, fromPage, fromSitemap, fromIndex uint8 = 0, 1, 2, 3
)

// A URL is named once in a run, with the record of its link, and only where the source of its first link does not tell.
func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &namesStore{memStore: newMemStore(), urls: map[weburl.Key]string{}}
		var f *Frontier
		run := func(o Options) {
			if f != nil {
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
			}
			o.Shards, o.IgnoreRobots, o.Pace, o.Names = 2, true, fast(1), testNames
			f = newTest(t, o, store)
			for _, k := range keysOf(store) {
				f.Remember([]weburl.Key{k})
			}
		}
		url := func(path string) weburl.URL { return mustURL("http://a.example" + path) }
		// read ends a lease of a new page, which links to the given paths.
		pages := 0
		read := func(o Origin, paths ...string) {
			t.Helper()
			pages++
			self := fmt.Sprintf("/page/%d", pages)
			add(t, f, Link{URL: url(self)})
			store.lines = nil
			r := Result{Class: pace.ClassOK, Finish: &Finish{}, Origin: o}
			r.Origin.Source = fromPage
			for _, path := range append(paths, self) { // its own link never counts
				r.Found = append(r.Found, Found{URL: url(path)})
			}
			for l := next(t, f); ; l = next(t, f) {
				if l.URL() == url(self) {
					done(t, l, r)
					return
				}
				done(t, l, Result{Class: pace.ClassOK, Finish: &Finish{}})
			}
		}
		list := func(source uint8, at time.Time, paths ...string) {
			t.Helper()
			var links []Link
			for _, path := range paths {
				links = append(links, Link{URL: url(path), Source: source, LastMod: at})
			}
			add(t, f, links...)
		}

		run(Options{})
		read(Origin{}, "/a", "/b")
		store.want(t, "new links", "/a from 1, /b from 1")
		read(Origin{}, "/page/1", "/a")
		store.want(t, "a start, while all else is from pages")
		run(Options{})
		read(Origin{}, "/a", "/b")
		store.want(t, "another run of such a crawl")

		list(fromSitemap, time.Time{}, "/c", "/a", "/c")
		store.want(t, "the first sitemap", "/c from 2, /a in 0 listed, listed")
		read(Origin{}, "/c", "/d", "/c", "/page/1")
		store.want(t, "links to what is listed", "/d from 1, /c in 0 linked, /page/1 in 0 linked")
		read(Origin{}, "/c", "/d")
		store.want(t, "the same again")
		list(fromSitemap, time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), "/a", "/e")
		list(fromSitemap, time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), "/a", "/e")
		list(fromSitemap, time.Time{}, "/a", "/e")
		store.want(t, "listings with a date", "/e from 2, /a in 0 listed 2024",
			"/a in 0 listed 2025, /e in 0 listed 2025")
		list(fromIndex, time.Time{}, "/f", "/a")
		store.want(t, "an index", "/f from 3")
		read(Origin{}, "/f")
		store.want(t, "a link to what an index has", "/f in 0 linked")

		run(Options{})
		f.NameLinks()
		read(Origin{}, "/a", "/f")
		store.want(t, "the next run", "/a in 0 linked, /f in 0 linked")
		store.want(t, "nothing")

		run(Options{Generation: 1})
		read(Origin{Unnamed: true}, "/a", "/g")
		store.want(t, "a page that names nothing", "/g from 1")
		read(Origin{}, "/a", "/h")
		store.want(t, "a later generation", "/h from 1, /h in 1 linked, /a in 1 linked")
		list(fromSitemap, time.Time{}, "/h", "/i")
		store.want(t, "its sitemap", "/i from 2, /i in 1 listed, /h in 1 listed")

		p := f.hasher.HostID("a.example").Partition()
		links := []Link{{URL: url("/i"), Source: fromPage}, {URL: url("/j"), Source: fromSitemap},
			{URL: url("/j"), Source: fromPage}, {URL: url("/h"), Source: fromPage}}
		if _, err := f.Receive(t.Context(), links, Mark{Partition: p, Batch: 7}); err != nil {
			t.Fatal(err)
		}
		store.want(t, "links of another machine", "/j from 2, /j in 1 listed, /i in 1 linked, /j in 1 linked, mark 7")
		f.ClosePartition(p)
		list(fromPage, time.Time{}, "/a", "/k", "/a")
		store.want(t, "links to a closed partition", "sent /a from 1, sent /k from 1")
	})
}

// keysOf are the keys of all links that the store has.
func keysOf(s *namesStore) []weburl.Key {
	var keys []weburl.Key
	for k := range s.urls {
		keys = append(keys, k)
	}
	return keys
}
