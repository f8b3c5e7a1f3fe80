package urlqueue

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// The model: what the store should hold, in maps.
type modelName struct{ crawl, key string }

type modelURL struct {
	metadata string
	refetch  uint64
	created  uint64
	until    int64 // milliseconds
}

type modelQueue struct {
	urls     map[string]*modelURL
	delay    int64
	blocked  int64
	limit    int
	produced int64
}

type model struct {
	queues   map[modelName]*modelQueue
	delay    int64
	inactive bool
}

func (m *model) put(crawl, key, url, metadata string, known bool, refetch uint64) Status {
	n := modelName{crawl, key}
	q := m.queues[n]
	if q == nil {
		q = &modelQueue{urls: map[string]*modelURL{}, delay: -1}
		m.queues[n] = q
	}
	now := uint64(time.Now().Unix())
	old := q.urls[url]
	if old != nil && !known {
		return Skipped
	}
	u := &modelURL{metadata: metadata, refetch: now, created: now}
	if known {
		u.refetch = refetch
	}
	if old != nil {
		u.created = old.created
	}
	q.urls[url] = u
	return OK
}

func (q *modelQueue) inProcess(now int64) (n int) {
	for _, u := range q.urls {
		if u.until > now {
			n++
		}
	}
	return n
}

func (q *modelQueue) done() (n int) {
	for _, u := range q.urls {
		if u.refetch == 0 {
			n++
		}
	}
	return n
}

// due returns how many URLs the queue may give now.
func (m *model) due(q *modelQueue, now int64, maxURLs int) (n int) {
	delay := q.delay
	if delay < 0 {
		delay = m.delay
	}
	if m.inactive || q.blocked*1000 > now || q.produced+1000*delay > now || q.inProcess(now) >= maxURLs ||
		q.limit > 0 && q.done() >= q.limit {
		return 0
	}
	for _, u := range q.urls {
		if u.refetch != 0 && int64(u.refetch)*1000 <= now && u.until <= now {
			n++
		}
	}
	return min(n, maxURLs)
}

// TestModel makes random calls, closes and opens, opens copies of the directory as a kill would leave it, and compares
// all with the model. Segments are small, so that the log is cleaned all the time.
func TestModel(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runModel(t, seed, 250) })
		})
	}
}

func runModel(t *testing.T, seed uint64, steps int) {
	r := rand.New(rand.NewPCG(seed, 1))
	root := t.TempDir()
	dir := filepath.Join(root, "0")
	options := Options{MinFree: -1, SegmentSize: 32 << 10}
	open := func() *Store {
		s, err := Open(dir, options)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	defer func() { _ = s.Close() }()
	m := &model{queues: map[modelName]*modelQueue{}, delay: defaultDelay}
	name := func() (string, string) { return fmt.Sprint("c", r.IntN(2)), fmt.Sprint("k", r.IntN(4)) }
	check := func(err error) {
		t.Helper()
		if err != nil && !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
	}
	for step := range steps {
		crawl, key := name()
		q := m.queues[modelName{crawl, key}]
		switch op := r.IntN(24); {
		case op < 9:
			m.putMany(t, s, r)
		case op < 16:
			m.take(t, s, r, crawl, key)
		case op == 16:
			time.Sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
		case op == 17 && q != nil:
			q.delay = int64(r.IntN(4))
			check(s.SetDelay(crawl, key, uint32(q.delay)))
			q.limit = r.IntN(3) * 10
			check(s.SetLimit(crawl, key, uint32(q.limit)))
		case op == 18 && q != nil:
			q.blocked = time.Now().Unix() + int64(r.IntN(4))
			check(s.Block(crawl, key, uint64(q.blocked)))
		case op == 19:
			m.delay, m.inactive = int64(r.IntN(3)), r.IntN(4) == 0
			check(s.SetDefaultDelay(uint32(m.delay)))
			check(s.SetActive(!m.inactive))
		case op == 20 && r.IntN(3) == 0:
			m.delete(t, s, r, crawl, key)
		case op == 21:
			m.purge(t, s, r, crawl)
		case op == 22:
			check(s.Close())
			s = open()
		case op == 23:
			next := filepath.Join(root, fmt.Sprint(step+1))
			copyQuiet(t, s, dir, next)
			check(s.Close())
			dir = next
			s = open()
		}
		m.compare(t, s, step)
	}
	if first, _ := s.log.Oldest(); first == 1 {
		t.Error("the log was never cleaned")
	}
}

func (m *model) putMany(t *testing.T, s *Store, r *rand.Rand) {
	items, want := []Item(nil), []Status(nil)
	for range 1 + r.IntN(20) {
		crawl, key := fmt.Sprint("c", r.IntN(2)), fmt.Sprint("k", r.IntN(4))
		url, metadata := fmt.Sprint("http://", key, "/", r.IntN(60)), fmt.Sprint("m", r.IntN(1000))
		known, refetch := r.IntN(3) == 0, uint64(0)
		if r.IntN(2) == 0 {
			refetch = uint64(time.Now().Unix() + int64(r.IntN(8)) - 4)
		}
		items = append(items, Item{Crawl: []byte(crawl), Key: []byte(key), URL: []byte(url), Metadata: []byte(metadata),
			Known: known, Refetch: refetch})
		want = append(want, m.put(crawl, key, url, metadata, known, refetch))
	}
	got := make([]Status, len(items))
	ticket, err := s.Put(items, got)
	if err != nil || s.Wait(ticket) != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("put: %v, want %v", got, want)
	}
}

func (m *model) take(t *testing.T, s *Store, r *rand.Rand, crawl, key string) {
	now := time.Now().UnixMilli()
	w := Wanted{Crawl: crawl, MaxQueues: 1 + r.IntN(6), MaxURLs: 1 + r.IntN(8),
		Hold: time.Duration(r.IntN(5)+1) * time.Second}
	switch r.IntN(3) {
	case 0:
		w.AnyCrawl = true
	case 1:
		w.Key = key
	}
	able := 0
	want := map[modelName]int{}
	for n, q := range m.queues {
		if (w.AnyCrawl || n.crawl == crawl) && (w.Key == "" || n.key == key) {
			if want[n] = m.due(q, now, w.MaxURLs); want[n] > 0 {
				able++
			}
		}
	}
	got := map[modelName][]string{}
	if err := s.Take(w, func(u URL) error {
		n := modelName{u.Crawl, u.Key}
		got[n] = append(got[n], string(u.Text))
		if mu := m.queues[n].urls[string(u.Text)]; mu == nil || mu.metadata != string(u.Metadata) {
			t.Fatalf("took %q with metadata %q, model has %+v", u.Text, u.Metadata, mu)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(got) != min(able, w.MaxQueues) {
		t.Fatalf("take %+v: %d queues, %d can give", w, len(got), able)
	}
	for n, urls := range got {
		if len(urls) != want[n] {
			t.Fatalf("take %+v: %d URLs of %v, want %d", w, len(urls), n, want[n])
		}
		q := m.queues[n]
		last := uint64(0)
		for _, url := range urls {
			u := q.urls[url]
			if u.refetch == 0 || int64(u.refetch)*1000 > now || u.until > now || u.refetch < last {
				t.Fatalf("take of %v: %s is not due, held, or in the wrong order: %+v", n, url, u)
			}
			last = u.refetch
			u.until = now + w.Hold.Milliseconds()
		}
		q.produced = now
	}
}

func (m *model) delete(t *testing.T, s *Store, r *rand.Rand, crawl, key string) {
	want := 0
	del := func() (int, error) { return s.DeleteQueue(crawl, key) }
	if r.IntN(2) == 0 {
		key = ""
		del = func() (int, error) { return s.DeleteCrawl(crawl) }
	}
	for n, q := range m.queues {
		if n.crawl == crawl && (key == "" || n.key == key) {
			want += len(q.urls)
			delete(m.queues, n)
		}
	}
	if n, err := del(); err != nil || n != want {
		t.Fatalf("deleted %d, want %d: %v", n, want, err)
	}
}

func (m *model) purge(t *testing.T, s *Store, r *rand.Rand, crawl string) {
	before := time.Now().Add(-time.Duration(r.IntN(20)) * time.Second)
	want := 0
	for n, q := range m.queues {
		if n.crawl == crawl {
			maps.DeleteFunc(q.urls, func(_ string, u *modelURL) bool {
				old := int64(u.created) < before.Unix()
				if old {
					want++
				}
				return old
			})
		}
	}
	if n, err := s.Purge(crawl, "", before); err != nil || n != want {
		t.Fatalf("purged %d, want %d: %v", n, want, err)
	}
}

func (m *model) compare(t *testing.T, s *Store, step int) {
	t.Helper()
	now := time.Now().UnixMilli()
	var keys, wantKeys []modelName
	for _, crawl := range s.Crawls() {
		for _, key := range s.Queues(crawl, 0, 1000, true) {
			keys = append(keys, modelName{crawl, key})
		}
	}
	for n, q := range m.queues {
		wantKeys = append(wantKeys, n)
		want := Stats{Queues: 1, Active: len(q.urls) - q.done(), InProcess: q.inProcess(now), Done: q.done()}
		if want.Active > 0 {
			want.ActiveQueues = 1
		}
		if got := s.Stats(n.crawl, n.key); got != want {
			t.Fatalf("step %d: stats of %v: %+v, want %+v", step, n, got, want)
		}
		seen := map[string]bool{}
		if err := s.List(n.crawl, n.key, func(u URL) error {
			mu := q.urls[string(u.Text)]
			if mu == nil || seen[string(u.Text)] || mu.metadata != string(u.Metadata) || mu.refetch != u.Refetch ||
				mu.created != u.Created {
				t.Fatalf("step %d: listed %q %q %d %d, model has %+v", step, u.Text, u.Metadata, u.Refetch,
					u.Created, mu)
			}
			seen[string(u.Text)] = true
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if len(seen) != len(q.urls) || s.Count(n.crawl, n.key) != len(q.urls) {
			t.Fatalf("step %d: %v lists %d URLs, want %d", step, n, len(seen), len(q.urls))
		}
	}
	order := func(a, b modelName) int { return cmp.Or(cmp.Compare(a.crawl, b.crawl), cmp.Compare(a.key, b.key)) }
	slices.SortFunc(keys, order)
	slices.SortFunc(wantKeys, order)
	if !slices.Equal(keys, wantKeys) {
		t.Fatalf("step %d: queues %v, want %v", step, keys, wantKeys)
	}
	if s.Active() == m.inactive {
		t.Fatalf("step %d: active is %v", step, s.Active())
	}
}

// copyQuiet copies the directory as it is when nothing waits to be written: what a kill leaves after the last
// acknowledgement, with or without a cleaning under way.
func copyQuiet(t *testing.T, s *Store, from, to string) {
	t.Helper()
	// Removing a segment is the only change beside appends. It takes the lock that reads take.
	for {
		err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from)))
		if err == nil {
			return
		}
		if !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}
