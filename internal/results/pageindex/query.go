package pageindex

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/problems"
)

// Filter says which pages are wanted: those for which every field that is set holds. The zero value lets all pass.
type Filter struct {
	Outcomes   []page.Outcome
	Statuses   []int // status codes; 0 is no answer
	Classes    []int // first digits of status codes; 0 is no answer
	Depth      Range // of depth in sitemap.jsonl
	ClickDepth Range // pages whose click depth is not known do not pass
	Bytes      Range // likewise
	Millis     Range // likewise
	Indexable  *bool
	Unlinked   *bool
	Problems   problems.Set // at least one of these
	AnyProblem *bool        // whether the page has a problem
	Changes    []page.Change
	Generation *int // the last check

	URL    string // exactly this URL
	Prefix string // URLs that begin with this text
	// URLs with this text; letters of ASCII match in either case, and other characters in their escaped form
	Contains string
}

// Range is a range of numbers, both ends included. Nil is no bound.
type Range struct{ Min, Max *int64 }

func (r Range) set() bool { return r.Min != nil || r.Max != nil }

// has reports whether a value is in the range. A negative value is not known.
func (r Range) has(v int64) bool {
	return !r.set() || v >= 0 && (r.Min == nil || v >= *r.Min) && (r.Max == nil || v <= *r.Max)
}

// Order is what pages are sorted by.
type Order uint8

// The orders. Values that are not known come last.
const (
	ByURL Order = iota // host name, then URL
	ByStatus
	ByDepth
	ByClickDepth
	ByBytes
	ByMillis
	ByChecked
	numOrders
)

func orderNames() [numOrders]string {
	return [...]string{ByURL: "url", ByStatus: "status", ByDepth: "depth", ByClickDepth: "click_depth",
		ByBytes: "content_length", ByMillis: "response_time", ByChecked: "checked_at"}
}

func (o Order) String() string {
	if o < numOrders {
		return orderNames()[o]
	}
	return fmt.Sprintf("order_%d", uint8(o))
}

// ParseOrder finds an order by its name.
func ParseOrder(name string) (Order, bool) {
	i := slices.Index(Orders(), name)
	return Order(max(i, 0)), i >= 0
}

// Orders are the names of all orders.
func Orders() []string {
	names := orderNames()
	return names[:]
}

// Query selects pages and their order.
type Query struct {
	Filter     Filter
	Order      Order
	Descending bool   // the largest first; pages with the same value stay in the order of URLs
	Limit      int    // how many; 0 means DefaultLimit, and more than MaxLimit means that
	Bytes      int    // of their lines together; a page whose line is longer is given alone. 0 means any
	Cursor     string // Result.Next of the pages before
}

// Limits of one answer.
const (
	DefaultLimit = 50
	MaxLimit     = 1000
)

// Result is the answer to a query.
type Result struct {
	Total int64 // all pages that pass the filter, not only Hits
	Hits  []Hit
	Next  string // cursor of what follows; empty if nothing does
}

// Errors of queries.
var (
	ErrCursor = errors.New("the cursor is not one of this query")
	// ErrOldCursor means that sitemap.jsonl was written again since the cursor was given out.
	ErrOldCursor = errors.New("the pages were written again since this cursor was made: begin without a cursor")
)

// Query answers a query in one pass over the index.
func (x *Index) Query(ctx context.Context, q Query) (*Result, error) {
	match, err := q.Filter.compile(x)
	if err != nil {
		return nil, err
	}
	if q.Order >= numOrders {
		return nil, fmt.Errorf("there is no %s", q.Order)
	}
	after, err := x.readCursor(&q)
	if err != nil {
		return nil, err
	}
	limit := q.Limit
	if limit <= 0 {
		limit = DefaultLimit
	}
	best := &smallest{limit: min(limit, MaxLimit) + 1} // one more shows whether something follows
	res := &Result{Hits: []Hit{}}
	err = x.each(ctx, match, func(id uint32, row stored, _ []byte) bool {
		res.Total++
		if k := (key{q.key(row), row.rank(), id}); after.less(k) {
			best.add(k)
		}
		return true
	}, false)
	if err != nil {
		return nil, err
	}
	size := 0
	for i, k := range best.sorted() {
		h, err := x.hit(k.id)
		if err != nil {
			return nil, err
		}
		size += int(h.length)
		if i == best.limit-1 || i > 0 && q.Bytes > 0 && size > q.Bytes {
			res.Next = x.cursor(&q, best.keys[i-1])
			break
		}
		res.Hits = append(res.Hits, h)
	}
	return res, nil
}

// hit reads one row.
func (x *Index) hit(id uint32) (Hit, error) {
	size := 2 * rowSize
	if uint64(id)+1 == x.header.rows {
		size = rowSize
	}
	rows := make([]byte, size)
	if _, err := x.file.ReadAt(rows, headerSize+int64(id)*rowSize); err != nil {
		return Hit{}, fmt.Errorf("read the page index: %w", err)
	}
	begin, end := urlAt(rows, 0), x.header.urlBytes
	if size > rowSize {
		end = urlAt(rows, 1)
	}
	url := make([]byte, end-begin)
	if _, err := x.file.ReadAt(url, headerSize+int64(x.header.rows)*rowSize+int64(begin)); err != nil {
		return Hit{}, fmt.Errorf("read the page index: %w", err)
	}
	return stored(rows).hit(url), nil
}

// key is the place of a page in the order of a query: the smaller comes first.
type key struct {
	value uint64
	rank  uint32
	id    uint32 // not compared: ranks differ
}

func (a key) less(b key) bool { return a.value < b.value || a.value == b.value && a.rank < b.rank }

// key is the value by which a query sorts. It is never 0, so that every key comes after the zero key.
func (q *Query) key(row stored) uint64 {
	v := int64(-1)
	switch q.Order {
	case ByURL:
		v = int64(row.rank())
	case ByStatus:
		if s := row.status(); s != 0 {
			v = int64(s)
		}
	case ByDepth:
		v = int64(row.depth())
	case ByClickDepth:
		v = int64(row.clickDepth())
	case ByBytes:
		v = row.bytes()
	case ByMillis:
		v = row.millis()
	case ByChecked:
		if at := int64(binary.LittleEndian.Uint64(row[atChecked:])); at != math.MinInt64 {
			v = max(at, 0)
		}
	}
	switch {
	case v < 0:
		return math.MaxUint64
	case q.Descending:
		return math.MaxUint64 - 1 - uint64(v)
	}
	return uint64(v) + 1
}

// smallest keeps the smallest of many keys. It sorts and cuts them whenever there are twice as many as are wanted.
type smallest struct {
	limit int
	keys  []key
	full  bool // worst is set; a key that is not smaller is dropped
	worst key
}

func (s *smallest) add(k key) {
	if s.full && !k.less(s.worst) {
		return
	}
	if s.keys = append(s.keys, k); len(s.keys) == 2*s.limit {
		s.worst, s.full = s.sorted()[s.limit-1], true
	}
}

// sorted sorts the keys and keeps the first limit of them.
func (s *smallest) sorted() []key {
	slices.SortFunc(s.keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.rank, b.rank))
	})
	s.keys = s.keys[:min(len(s.keys), s.limit)]
	return s.keys
}

// cursor names the place after a key in the order of a query, and the sitemap.jsonl in which it is valid.
func (x *Index) cursor(q *Query, k key) string {
	b := []byte{1, byte(q.Order), 0}
	if q.Descending {
		b[2] = 1
	}
	b = binary.LittleEndian.AppendUint64(b, x.header.source.hash)
	b = binary.LittleEndian.AppendUint64(b, k.value)
	b = binary.LittleEndian.AppendUint32(b, k.rank)
	return base64.RawURLEncoding.EncodeToString(b)
}

func (x *Index) readCursor(q *Query) (key, error) {
	if q.Cursor == "" {
		return key{}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err != nil || len(b) != 23 || b[0] != 1 || Order(b[1]) != q.Order || (b[2] == 1) != q.Descending {
		return key{}, ErrCursor
	}
	if binary.LittleEndian.Uint64(b[3:]) != x.header.source.hash {
		return key{}, ErrOldCursor
	}
	return key{value: binary.LittleEndian.Uint64(b[11:]), rank: binary.LittleEndian.Uint32(b[19:])}, nil
}

// matcher is a filter in the form in which it is applied.
type matcher struct {
	f        *Filter
	outcomes [256]bool
	changes  [256]bool
	statuses [1000]bool
	classes  [10]bool
	exact    []byte // nil if the filter has none; also the next two
	prefix   []byte
	contains []byte
}

// ErrUnknown means that a filter asks for what the index of a crawl does not know.
var ErrUnknown = errors.New("not known of this crawl")

func (f *Filter) compile(x *Index) (*matcher, error) {
	m := &matcher{f: f}
	if (f.Problems != 0 || f.AnyProblem != nil) && !x.KnowsProblems() {
		return nil, fmt.Errorf("problems are %w", ErrUnknown)
	}
	if f.ClickDepth.set() && !x.KnowsClickDepths() {
		return nil, fmt.Errorf("click depths are %w, because links were not recorded (--links)", ErrUnknown)
	}
	for _, o := range f.Outcomes {
		m.outcomes[o] = true
	}
	for _, c := range f.Changes {
		m.changes[c] = true
	}
	for _, s := range f.Statuses {
		if s < 0 || s >= len(m.statuses) {
			return nil, fmt.Errorf("there is no status %d", s)
		}
		m.statuses[s] = true
	}
	for _, c := range f.Classes {
		if c < 0 || c > 9 {
			return nil, fmt.Errorf("there is no status class %d", c)
		}
		m.classes[c] = true
	}
	if f.URL != "" {
		m.exact = []byte(f.URL)
	}
	if f.Prefix != "" {
		m.prefix = []byte(f.Prefix)
	}
	if f.Contains != "" {
		m.contains = []byte(escapeText(f.Contains))
		fold(m.contains)
	}
	return m, nil
}

// escapeText escapes characters outside of ASCII and blanks as URLs have them.
func escapeText(text string) string {
	out := &strings.Builder{}
	for i := range len(text) {
		if c := text[i]; c < utf8.RuneSelf && c > ' ' {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(out, "%%%02X", c)
		}
	}
	return out.String()
}

func (m *matcher) needsURL() bool { return m.exact != nil || m.prefix != nil || m.contains != nil }

// row reports whether a row passes the filter apart from its URL.
func (m *matcher) row(r stored) bool {
	f := m.f
	switch {
	case len(f.Outcomes) > 0 && !m.outcomes[r.outcome()],
		len(f.Changes) > 0 && !m.changes[r.change()],
		len(f.Statuses) > 0 && !m.statuses[min(int(r.status()), len(m.statuses)-1)],
		len(f.Classes) > 0 && !m.classes[min(r.status()/100, 9)],
		f.Indexable != nil && *f.Indexable != r.has(flagIndexable),
		f.Unlinked != nil && *f.Unlinked != r.has(flagUnlinked),
		f.Problems != 0 && f.Problems&r.problems() == 0,
		f.AnyProblem != nil && *f.AnyProblem != (r.problems() != 0),
		f.Generation != nil && *f.Generation != int(r.generation()),
		!f.Depth.has(int64(r.depth())),
		!f.ClickDepth.has(int64(r.clickDepth())),
		!f.Bytes.has(r.bytes()),
		!f.Millis.has(r.millis()):
		return false
	}
	return true
}

// url reports whether a URL passes the filter apart from Contains.
func (m *matcher) url(url []byte) bool {
	return (m.exact == nil || bytes.Equal(url, m.exact)) && (m.prefix == nil || bytes.HasPrefix(url, m.prefix))
}

// Lines is the filter for pages that are in no index yet, such as those of a running crawl. It must not ask for
// problems or click depths, which are not known of them. The function is not safe for concurrent use.
func (f *Filter) Lines() (passes func(*page.Line) bool, err error) {
	m, err := f.compile(&Index{})
	if err != nil {
		return nil, err
	}
	var row, url []byte
	return func(l *page.Line) bool {
		row, url = appendRow(row[:0], l, 0, 0, 0), append(url[:0], l.URL.String()...)
		if !m.row(row) || !m.url(url) {
			return false
		}
		fold(url)
		return bytes.Contains(url, m.contains)
	}, nil
}

// Counts are numbers of pages that a filter lets pass.
type Counts struct {
	Total     int64
	Indexable int64
	Outcomes  map[page.Outcome]int64
	Classes   map[int]int64 // by the first digit of the status; 0 is no answer
	Changes   map[page.Change]int64
	Problems  map[problems.Code]int64
}

// Counts counts pages in one pass.
func (x *Index) Counts(ctx context.Context, f *Filter) (*Counts, error) {
	match, err := f.compile(x)
	if err != nil {
		return nil, err
	}
	var outcomes, changes [256]int64
	var classes [10]int64
	var found [64]int64
	c := &Counts{Outcomes: map[page.Outcome]int64{}, Classes: map[int]int64{}, Changes: map[page.Change]int64{},
		Problems: map[problems.Code]int64{}}
	err = x.each(ctx, match, func(_ uint32, row stored, _ []byte) bool {
		c.Total++
		if row.has(flagIndexable) {
			c.Indexable++
		}
		outcomes[row.outcome()]++
		changes[row.change()]++
		classes[min(row.status()/100, 9)]++
		for set, i := row.problems(), 0; set != 0; set, i = set>>1, i+1 {
			if set&1 != 0 {
				found[i]++
			}
		}
		return true
	}, false)
	if err != nil {
		return nil, err
	}
	fill(c.Outcomes, outcomes[:])
	fill(c.Changes, changes[:])
	fill(c.Classes, classes[:])
	fill(c.Problems, found[:])
	return c, nil
}

// fill puts the counts that are not zero into a map.
func fill[K ~uint8 | ~int](into map[K]int64, counts []int64) {
	for i, n := range counts {
		if n > 0 {
			into[K(i)] = n
		}
	}
}
