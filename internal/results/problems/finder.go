package problems

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/extsort"
	"github.com/mapwright/mapwright/internal/page"
)

// Options are what a Finder knows of a crawl beside its pages.
type Options struct {
	Sorts extsort.Space // for all sorts together
	// NoRoom says of an error of Sorts.Bound why problems cannot be looked for, empty if it means something else.
	NoRoom func(error) string

	Links          bool // pages have their links
	FollowNofollow bool // links with nofollow count as followed
	NearDuplicates bool // pages have a simhash
	// Host tells about the host of a URL. It is asked again only when the origin changes from one page to the next.
	Host func(u weburl.URL) (Host, error)
	// Checked says what a check found at a URL, and false if it was not checked. Nil means that nothing was.
	Checked func(url string) (page.Checked, bool)
	// NotChecked has the reasons for which problems are not looked for.
	NotChecked map[Code]string
	// Notes have remarks on problems that are looked for.
	Notes map[Code]string
}

// Host is what problems depend on beside a host's pages.
type Host struct {
	SitemapsRead bool       // it has sitemaps, and all of them were read
	Probed       bool       // its origin has answered a request for a random path
	Probe        *page.Hash // of the text of that answer, if its status was 200; else nil
}

// A Finder finds the problems of a site. Call See or Skip for each page in the order of sitemap.jsonl, then Join. If
// Targets is not 0 after that, call SeeLinks once more for each page. Call Finish last. Close may be called at any
// time. Its memory does not grow with the number of pages. It is not safe for concurrent use.
type Finder struct {
	o    Options
	line int64 // number of pages seen
	err  error // the first; See returns it
	// gaveUp is the error of Sorts.Bound after which no problem is looked for any more; nil before
	gaveUp error

	found      *extsort.Sorter[finding]
	subjects   *extsort.Sorter[subject]
	mentions   *extsort.Sorter[mention]
	recent     []uint64 // recent links by hash: a link that is soon repeated is not sorted again
	same       map[Code]*alike
	near       *nearness
	duplicates *duplicates
	// hashes of URLs whose linking pages are reported, in order
	broken, moved []uint64
	// URLs outside of the crawl that have a problem, by hash: the number of the last page that links to each
	outside map[uint64]int64

	origin   string // of the last page
	host     Host
	listed   int64 // pages that sitemaps list
	unjudged int64 // pages of which it is not known whether others link to them
	sitemaps int64 // pages of hosts whose sitemaps were all read
	probed   int64 // pages of origins that have answered a probe
}

// New makes a Finder.
func New(o Options) *Finder {
	o.Sorts = o.Sorts.Part(sorts)
	f := &Finder{o: o, recent: make([]uint64, recentLinks), near: newNearness(&o), same: map[Code]*alike{},
		outside: map[uint64]int64{}}
	f.found = extsort.New(o.Sorts, (*finding).fields)
	f.subjects = extsort.New(o.Sorts, (*subject).fields)
	f.mentions = extsort.New(o.Sorts, (*mention).fields)
	f.duplicates = newDuplicates(&o)
	return f
}

// sorts is how many sorts hold values at once.
const sorts = 11

// Close removes temporary files.
func (f *Finder) Close() {
	f.found.Close()
	f.subjects.Close()
	f.mentions.Close()
	f.duplicates.close()
	f.near.close()
}

// GaveUp returns the error of Options.Sorts for which the Finder has given up, nil if it has not. What it has found is
// dropped then, and every problem is not checked.
func (f *Finder) GaveUp() error { return f.gaveUp }

// failed returns the first error, unless it is one for which the Finder gives up.
func (f *Finder) failed() error {
	if f.err == nil || f.gaveUp != nil || f.o.NoRoom == nil {
		return f.err
	}
	why := f.o.NoRoom(f.err)
	if why == "" {
		return f.err
	}
	f.gaveUp, f.err = f.err, nil
	f.Close()
	f.o.NotChecked = map[Code]string{}
	for _, d := range Table() {
		f.o.NotChecked[d.Code] = why
	}
	f.broken, f.moved = nil, nil
	return nil
}

// looks reports whether a problem is looked for.
func (f *Finder) looks(c Code) bool { return f.o.NotChecked[c] == "" }

// add notes that a page has a problem.
func (f *Finder) add(c Code, url string, line int64, value string, related ...string) {
	if f.err != nil || !f.looks(c) {
		return
	}
	f.err = f.found.Add(finding{Code: c, URL: url, Line: line, Value: value, Related: related})
}

// Skip takes the next page, and does not judge it.
func (f *Finder) Skip() { f.line++ }

// See takes the next page.
func (f *Finder) See(l *page.Line) error {
	line := f.line
	f.line++
	if f.err != nil || f.gaveUp != nil {
		return f.failed()
	}
	if origin := l.URL.Origin(); origin != f.origin && f.o.Host != nil {
		f.host, f.err = f.o.Host(l.URL)
		f.origin = strings.Clone(origin)
	}
	v := view{Line: l, URL: l.URL.String(), number: line, isPage: isPage(l)}
	v.isIndexable = v.isPage && l.Indexable
	add := func(c Code, value string, related ...string) { f.add(c, v.URL, line, value, related...) }
	f.answer(&v, add)
	if l.InSitemap {
		f.listed++
	}
	f.sitemap(&v, add)
	if v.isPage {
		f.page(&v, add)
	}
	if v.isIndexable {
		f.texts(&v, add)
	}
	f.relate(&v)
	return f.failed()
}

// view is a page with what See derives from it.
type view struct {
	*page.Line
	URL         string // that of Line as text
	number      int64  // its number in sitemap.jsonl, from 0
	isPage      bool   // outcome ok, status 200, HTML, read
	isIndexable bool   // a page that is indexable

	assets map[string]bool // the files that it uses, once isAsset was called
}

// isAsset reports whether the page uses a URL as a file.
func (v *view) isAsset(url string) bool {
	if v.assets == nil {
		v.assets = make(map[string]bool, len(v.Assets))
		for _, a := range v.Assets {
			v.assets[a] = true
		}
	}
	return v.assets[url]
}

func isPage(l *page.Line) bool {
	return l.Outcome == page.OK.String() && l.StatusCode == 200 && l.WordCount != nil && isHTML(l.ContentType)
}

func isHTML(contentType string) bool {
	t := page.MediaType(contentType)
	return t == "text/html" || t == "application/xhtml+xml"
}

// answer checks how a URL was answered.
func (f *Finder) answer(v *view, add func(Code, string, ...string)) {
	switch o := v.Outcome; {
	case o == page.HTTPError.String() && v.StatusCode >= 500, o == page.Timeout.String(), o == page.ReadError.String():
		add(ServerError, answerOf(v.Line))
	case o == page.RedirectLoop.String():
		hops := v.Hops
		if len(hops) == 0 && v.RedirectTo != "" {
			hops = []string{v.RedirectTo}
		}
		add(RedirectLoop, "", hops...)
	case o == page.TooLarge.String() && isHTML(v.ContentType):
		length := ""
		if v.ContentLength != nil {
			length = strconv.FormatInt(*v.ContentLength, 10)
		}
		add(Large, length)
	}
}

// answerOf is the status code of a URL. It is the outcome if there is no status, or if the status is not what failed.
func answerOf(l *page.Line) string {
	if o := l.Outcome; l.StatusCode == 0 || o == page.Timeout.String() || o == page.ReadError.String() {
		return o
	}
	return strconv.Itoa(l.StatusCode)
}

// isBroken reports whether a link to the URL leads nowhere.
func isBroken(l *page.Line) bool {
	switch l.Outcome {
	case page.DNSError.String(), page.ConnectError.String(), page.TLSError.String():
		return true
	case page.HTTPError.String():
		return l.StatusCode >= 400 && l.StatusCode < 500 && !slices.Contains([]int{401, 403, 407, 429, 451},
			l.StatusCode)
	}
	return false
}

// isSettled reports whether the crawl knows what the URL answers. A URL that robots.txt forbids counts as settled,
// although it was not requested.
func isSettled(l *page.Line) bool {
	switch l.Outcome {
	case page.Pending.String(), page.HostBlocked.String(), page.Throttled.String(), page.Trap.String(),
		page.Crashed.String(), page.RefusedAddress.String():
		return false
	}
	return true
}

// sitemap compares a URL with what the sitemaps list.
func (f *Finder) sitemap(v *view, add func(Code, string, ...string)) {
	if f.host.SitemapsRead {
		f.sitemaps++
		if v.isIndexable && !v.InSitemap {
			add(NotInSitemap, "")
		}
	}
	if !v.InSitemap || !isSettled(v.Line) {
		return
	}
	switch reason := v.IndexableReason; {
	case reason == page.NotCanon:
		add(SitemapNotIndexable, reason, v.Canonical)
	case reason == page.NotNoIndex, reason == page.NotRobots:
		add(SitemapNotIndexable, reason)
	case v.StatusCode != 200:
		add(SitemapNotOK, answerOf(v.Line))
	}
}

// page checks a page apart from its texts: headings, mixed content, response time, size and soft 404.
func (f *Finder) page(v *view, add func(Code, string, ...string)) {
	if blank(v.H1) {
		add(H1Missing, "")
	}
	if v.H1Count != nil {
		add(H1Several, strconv.Itoa(*v.H1Count))
	}
	if len(v.MixedContent) > 0 {
		add(MixedContent, "", v.MixedContent...)
	}
	if t := v.ResponseTime; t != nil && time.Duration(*t) > MaxSeconds*time.Second {
		add(Slow, strconv.FormatInt(time.Duration(*t).Milliseconds(), 10))
	}
	if n := v.ContentLength; n != nil && *n > MaxBytes {
		add(Large, strconv.FormatInt(*n, 10))
	}
	if f.host.Probed {
		f.probed++
	}
	if p := f.host.Probe; p != nil && v.TextHash != nil && *p == *v.TextHash {
		add(SoftNotFound, p.String())
	}
}

// texts checks the texts of an indexable page.
func (f *Finder) texts(v *view, add func(Code, string, ...string)) {
	title, description := collapse(v.Title), collapse(v.Description)
	if title == "" {
		add(TitleMissing, "")
	}
	if n := utf8.RuneCountInString(title); n > MaxTitle {
		add(TitleLong, strconv.Itoa(n))
	}
	if description == "" {
		add(DescriptionMissing, "")
	}
	if n := utf8.RuneCountInString(description); n > MaxDescription {
		add(DescriptionLong, strconv.Itoa(n))
	}
	words := *v.WordCount
	if words < ThinWords {
		add(Thin, strconv.Itoa(words))
	}
	own := texts{Line: v.number, URL: v.URL, Texts: [numKinds]string{kindTitle: title, kindDescription: description}}
	if words >= ExactWords && v.TextHash != nil {
		own.Texts[kindWhole] = v.TextHash.String()
	}
	for kind := range numKinds {
		if !f.looks(duplicateOf(kind)) {
			own.Texts[kind] = ""
		}
	}
	if f.err == nil {
		f.err = f.duplicates.add(own, v.Line.URL.Host())
	}
	if words >= NearWords && v.SimHash != nil && v.TextHash != nil && f.looks(DuplicateNear) && f.err == nil {
		f.err = f.near.add(likeness{Sim: uint64(*v.SimHash), Text: uint64(*v.TextHash), URL: v.URL, Line: v.number})
	}
}

// collapse replaces each sequence of white space by one space, and removes it at the ends.
func collapse(text string) string {
	if isCollapsed(text) {
		return text
	}
	return strings.Join(strings.Fields(text), " ")
}

// isCollapsed reports whether it is certain that collapse changes nothing.
func isCollapsed(text string) bool {
	space := true // before the present character
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ' || c >= utf8.RuneSelf || c == ' ' && space:
			return false
		default:
			space = c == ' '
		}
	}
	return text == "" || !space
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }

// Join finds the problems that need more than one page. It follows the last call of See.
func (f *Finder) Join(ctx context.Context) error {
	if f.gaveUp != nil {
		return nil
	}
	if f.err == nil {
		f.err = f.joinGroups(ctx)
	}
	if f.err == nil {
		f.err = f.joinMentions(ctx)
	}
	if f.err == nil && f.looks(DuplicateNear) {
		f.err = f.near.join(ctx, f.add)
	}
	return f.failed()
}

// hashOf identifies a URL in joins. The chance that two of ten million URLs have the same is 3 in a million.
func hashOf(url string) uint64 { return xxhash.Sum64String(url) }
