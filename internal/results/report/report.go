// Package report makes the outputs of a crawl and its report: what became of the pages, and what is wrong with the
// site.
package report

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/extsort"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/export"
	"github.com/mapwright/mapwright/internal/results/problems"
	"github.com/mapwright/mapwright/internal/words"
	"github.com/mapwright/mapwright/state"
)

// Version stands first in report.json.
const Version = 1

// Report is report.json.
type Report struct {
	SchemaVersion int         `json:"schema_version"`
	Version       string      `json:"mapwright_version"`
	Status        page.Status `json:"status"`
	Success       bool        `json:"success"`
	Reason        string      `json:"reason"`
	Errors        []string    `json:"errors"`
	Warnings      []string    `json:"warnings,omitempty"`
	StartURLs     []string    `json:"start_urls"`
	Profile       string      `json:"profile"`
	IgnoredRobots bool        `json:"ignored_robots,omitempty"`
	StartedAt     page.Time   `json:"started_at"`      // the first run of the generation
	EndedAt       page.Time   `json:"ended_at"`        // this run
	Elapsed       float64     `json:"elapsed_seconds"` // of all runs of the generation, exports included
	Runs          int         `json:"runs"`            // of the generation; 0 in reports of earlier versions
	CrawlSeconds  float64     `json:"crawl_seconds"`   // of this run, without the export
	ExportSeconds float64     `json:"export_seconds"`  // of this run
	HotSetBytes   int64       `json:"hot_set_bytes"`   // memory of this run for recently seen URLs, a cache

	URLs          int64            `json:"urls"`
	Pages         int64            `json:"pages_this_run"`
	PagesPerSec   float64          `json:"pages_per_second"` // of this run's crawl phase
	Bytes         int64            `json:"bytes"`
	Outcomes      map[string]int64 `json:"outcomes"`
	StatusClasses map[string]int64 `json:"status_classes"`
	Indexable     int64            `json:"indexable"`
	NotIndexable  map[string]int64 `json:"not_indexable,omitempty"`
	// links that do not belong to the crawl, by reason, as of the last reading of each page
	SkippedLinks map[string]int64 `json:"skipped_links,omitempty"`
	Traps        map[string]int64 `json:"traps,omitempty"`

	Generation uint32 `json:"generation"` // 0 is the first crawl, 1 the first recrawl
	// of a recrawl: URLs by what it found; stale if the check failed, not_checked if there was none
	Changes       map[string]int64 `json:"changes,omitempty"`
	ChangedFields map[string]int64 `json:"changed_fields,omitempty"` // of a recrawl: changed URLs by what differs
	Unlinked      int64            `json:"unlinked,omitempty"`       // of a recrawl: URLs that nothing names any more

	SlowestHosts   []HostFigure         `json:"slowest_hosts,omitempty"`
	ThrottledHosts []HostFigure         `json:"throttled_hosts,omitempty"`
	BlockedHosts   []HostFigure         `json:"blocked_hosts,omitempty"`
	BrokenLinks    *List[Broken]        `json:"broken_links,omitempty"` // the problem broken_link
	Redirects      *List[Chain]         `json:"redirect_chains,omitempty"`
	Loops          *List[Chain]         `json:"redirect_loops,omitempty"`
	Orphans        *List[string]        `json:"orphans,omitempty"`         // the problem orphan
	Unlisted       *List[string]        `json:"not_in_sitemaps,omitempty"` // the problem not_in_sitemap
	SameTitle      *List[problems.Same] `json:"duplicate_titles,omitempty"`
	SameContent    *List[problems.Same] `json:"duplicate_content,omitempty"`

	// Problems are the checks of package problems, in its order, with what they found. problems.jsonl has all items.
	Problems []problems.Problem `json:"problems,omitempty"`

	Figures
	ClickDepths *ClickDepths   `json:"click_depths,omitempty"`
	Settings    map[string]any `json:"settings,omitempty"` // limits, and what differs from the defaults of the profile

	Cluster *Cluster `json:"cluster,omitempty"` // of a crawl of several machines

	Files           []string `json:"files"`
	export.Sitemaps          // if there are several sets
}

// Sitemap is the XML sitemap that a site submits: the only one, or the index over all. It is empty if the run wrote none.
func (r *Report) Sitemap() string {
	if i := slices.IndexFunc(r.Files, datadir.IsSitemap); i >= 0 {
		return r.Files[i]
	}
	return ""
}

// Cluster is what the report says of several machines, in all runs of the crawl.
type Cluster struct {
	Name      string    `json:"name"` // of the crawl
	Run       uint64    `json:"run"`
	Takeovers uint64    `json:"takeovers"` // of all machines; so is Fenced
	Fenced    uint64    `json:"fenced"`
	Machines  []Machine `json:"machines"` // in the order in which they first joined
}

// A Machine is one of several that worked on a crawl: a data directory.
type Machine struct {
	Name       string    `json:"name"` // host and process of its last session
	ID         string    `json:"id"`
	JoinedAt   page.Time `json:"joined_at"`
	LastBeatAt page.Time `json:"last_beat_at"`
	Sessions   int       `json:"sessions"` // how often it joined
	// that it fetched, also those whose record was refused; a process that was killed counts up to its last beat
	Pages     uint64 `json:"pages"`
	Batches   uint64 `json:"batches"`   // that it committed
	Takeovers uint64 `json:"takeovers"` // partitions that it took over from machines that had not closed them
	Fenced    uint64 `json:"fenced"`    // its sessions that ended because others had taken its partitions over
	Lost      bool   `json:"lost"`      // its last session ended without leaving, as by a kill
}

// List is a list of which only the first were kept.
type List[T any] struct {
	Total int64 `json:"total"`
	Cut   int64 `json:"cut,omitempty"` // how many are not shown
	Items []T   `json:"items"`
}

// maxListed is how many items a list of the report shows.
const maxListed = 1000

func (l *List[T]) add(item T) { l.addUpTo(item, maxListed) }

func (l *List[T]) addUpTo(item T, most int) {
	l.Total++
	if len(l.Items) < most {
		l.Items = append(l.Items, item)
	} else {
		l.Cut++
	}
}

// maxListBytes bounds the texts of a list of the report, in bytes: 1,000 items of 2 KiB. So a report stays small
// however long the URLs of a site are.
const maxListBytes = 2 << 20

// bound leaves out the items from the one on with which the list has more than maxListBytes.
func (l *List[T]) bound(bytes func(*T) int) {
	size := 0
	for i := range l.Items {
		if size += bytes(&l.Items[i]); size > maxListBytes {
			l.leave(i)
			return
		}
	}
}

// leave leaves the first n items, and counts the others as cut.
func (l *List[T]) leave(n int) {
	l.Cut += int64(len(l.Items) - n)
	l.Items = slices.Clone(l.Items[:n])
}

// sizeOf is how many bytes texts have.
func sizeOf(texts ...string) (n int) {
	for _, text := range texts {
		n += len(text)
	}
	return n
}

// orNil returns nil for an empty list, which leaves it out of the report.
func (l *List[T]) orNil() *List[T] {
	if l.Total == 0 {
		return nil
	}
	return l
}

// HostFigure is what the report says of one host.
type HostFigure struct {
	Host           string `json:"host"` // its name, without a port
	Pages          int64  `json:"pages,omitempty"`
	MeanResponseMS int64  `json:"mean_response_ms,omitempty"`
	Throttled      int64  `json:"throttled,omitempty"`
	Waiting        int64  `json:"waiting,omitempty"`
	Why            string `json:"why,omitempty"`
}

// Broken is a URL with the problem broken_link.
type Broken struct {
	URL        string `json:"url"`
	Outcome    string `json:"outcome"`
	StatusCode int    `json:"status_code,omitempty"`
	FoundOn    string `json:"found_on,omitempty"` // the page that first linked to it, or that redirects to it
	// LinkedFrom are all pages that link to it, when links were recorded.
	LinkedFrom *List[string] `json:"linked_from,omitempty"`
}

// Chain is a redirect that no other redirect leads to, and where it leads.
type Chain struct {
	URL     string   `json:"url"`
	Hops    []string `json:"hops"` // from the first target to the last; in a loop, the last is one that came before
	FoundOn string   `json:"found_on,omitempty"`
}

// summary gathers the figures of a report in one pass over the pages. Its memory is bounded, whatever the size of the
// crawl.
type summary struct {
	urls, indexable int64
	outcomes        map[string]int64
	classes         map[string]int64
	reasons         map[string]int64
	traps           map[string]int64
	redirects       *redirects
	lostStarts      List[string] // why start URLs gave no page
	hosts           hostFigures
	changes         changeCounts
	isHTTPSTry      func(*page.Line) bool // whether a failed page only showed that there is no https; may be nil
}

// newSummary makes an empty summary that sorts redirects in a space.
func newSummary(sorts extsort.Space) *summary {
	return &summary{redirects: newRedirects(sorts), outcomes: map[string]int64{},
		classes: map[string]int64{}, reasons: map[string]int64{}, traps: map[string]int64{}}
}

// see takes one page.
func (s *summary) see(l *page.Line) {
	s.urls++
	s.outcomes[l.Outcome]++
	if l.StatusCode >= 100 && l.StatusCode < 600 {
		s.classes[string(rune('0'+l.StatusCode/100))+"xx"]++
	}
	if l.Indexable {
		s.indexable++
	} else {
		s.reasons[l.IndexableReason]++
	}
	if l.Trap != "" {
		s.traps[l.Trap]++
	}
	switch l.Outcome {
	case page.Redirect.String(), page.RedirectLoop.String():
		s.redirects.see(l)
	case page.BlockedByRobots.String():
		if l.Depth == 0 && (l.Source == page.SourceName(page.SourceStart) ||
			l.Source == page.SourceName(page.SourceRedirect)) {
			s.lostStarts.addUpTo(l.Facts.Robots.Forbidden(l.URL.String()), page.MaxStartsNamed)
		}
	case page.HTTPError.String():
		why := "status " + strconv.Itoa(l.StatusCode)
		if l.StatusCode == http.StatusUnauthorized {
			why += ": it needs a user name and a password, see basic-auth"
		}
		s.loseStart(l, why)
	case page.DNSError.String(), page.ConnectError.String(), page.TLSError.String(), page.Timeout.String(),
		page.ReadError.String(), page.TooLarge.String():
		s.loseStart(l, l.Outcome)
	}
	s.hosts.see(l)
	s.changes.see(l)
}

// loseStart notes that a page ended without content, if it is a start page.
func (s *summary) loseStart(l *page.Line, why string) {
	if l.Source == page.SourceName(page.SourceStart) && !s.isFailedHTTPSTry(l) {
		s.lostStarts.addUpTo(fmt.Sprintf("the start URL %s gave no page (%s)", l.URL, why), page.MaxStartsNamed)
	}
}

// isFailedHTTPSTry reports whether a page only showed that there is no https.
func (s *summary) isFailedHTTPSTry(l *page.Line) bool { return s.isHTTPSTry != nil && s.isHTTPSTry(l) }

// fill puts the figures into a report.
func (s *summary) fill(ctx context.Context, r *Report) (err error) {
	r.URLs, r.Indexable = s.urls, s.indexable
	r.Outcomes, r.StatusClasses, r.NotIndexable, r.Traps = s.outcomes, s.classes, s.reasons, s.traps
	r.Generation, r.Changes, r.ChangedFields, r.Unlinked = s.changes.generation, s.changes.kinds, s.changes.fields,
		s.changes.unlinked
	s.hosts.end()
	r.SlowestHosts, r.ThrottledHosts, r.BlockedHosts = s.hosts.slowest, s.hosts.throttled, s.hosts.blocked
	r.Redirects, r.Loops, err = s.redirects.lists(ctx)
	if why := whyNoRoom(err); why != "" {
		r.Warnings = append(r.Warnings, "redirects are not listed: "+why)
		return nil
	}
	return err
}

// warnings returns the warnings that follow from the figures. If the crawl failed, its start URLs are among the errors
// instead. A dry run has no pages to warn of.
func (s *summary) warnings(r *Report, advice func(command, flag, helps string) string, dry bool) []string {
	var all []string
	if r.Status != page.Failed {
		all = append(all, s.lostStarts.Items...)
		if s.lostStarts.Cut > 0 {
			all = append(all, words.Count(s.lostStarts.Cut, "more start URL")+" gave no page either")
		}
	}
	if n := s.hosts.givenUp; n > 0 {
		outcome := "outcome host_blocked"
		if r.Generation > 0 {
			outcome += ", or what earlier visits found"
		}
		all = append(all, fmt.Sprintf("%s given up after too many failures in a row, and %s not fetched (%s)",
			words.Count(n, "host was", "hosts were"), words.Count(s.hosts.givenUpURLs, "URL was",
				"URLs were"), outcome)+advice("resume", "", "tries again"))
	}
	if n := s.outcomes[page.Crashed.String()]; n > 0 {
		all = append(all, fmt.Sprintf("%s given up because the process ended while they were read (outcome crashed)",
			words.Count(n, "page was", "pages were"))+advice("resume", " --retry-crashed", "tries again"))
	}
	if r.Indexable == 0 && !dry {
		all = append(all, "no XML sitemap was written, because no page is indexable (by indexable_reason: "+
			mostCommon(s.reasons)+")")
	}
	return all
}

// mostCommon writes the three largest counts.
func mostCommon(counts map[string]int64) string {
	names := words.ByCount(counts)
	text := words.Counts(counts, names[:min(3, len(names))])
	if len(names) > 3 {
		text += ", …"
	}
	return text
}

// hostFigures sums up hosts by name, over all their ports. Pages come by host, so one is summed at a time.
type hostFigures struct {
	now                         HostFigure
	total                       time.Duration
	slowest, throttled, blocked []HostFigure
	givenUp, givenUpURLs        int64 // hosts that failed, and their pages that wait
}

// maxHosts is how many hosts each list of the report shows.
const maxHosts = 20

func (h *hostFigures) see(l *page.Line) {
	host := strings.TrimSuffix(l.URL.Host(), ".") // the same host as without the dot, and their pages come mixed
	if host != h.now.Host {
		h.end()
		h.now = HostFigure{Host: host}
	}
	if l.ResponseTime != nil {
		h.now.Pages++
		h.total += time.Duration(*l.ResponseTime)
	}
	if l.Outcome == page.Throttled.String() {
		h.now.Throttled++
	}
}

// end adds the present host to the lists.
func (h *hostFigures) end() {
	if h.now.Host == "" {
		return
	}
	if h.now.Pages > 0 {
		h.now.MeanResponseMS = (h.total / time.Duration(h.now.Pages)).Milliseconds()
		h.slowest = top(h.slowest, h.now, func(a HostFigure) int64 { return a.MeanResponseMS })
	}
	if h.now.Throttled > 0 {
		h.throttled = top(h.throttled, h.now, func(a HostFigure) int64 { return a.Throttled })
	}
	h.now, h.total = HostFigure{}, 0
}

// wait adds the hosts whose pages wait because they are blocked. In a recrawl the pages keep what is known of them.
func (h *hostFigures) wait(ctx context.Context, s *state.Store) error {
	for w, err := range monitor.WaitingHosts(ctx, s) {
		if err != nil {
			return fmt.Errorf("read which hosts are blocked: %w", err)
		}
		figure := HostFigure{Host: strings.TrimSuffix(w.Name, "."), Waiting: w.Pages, Why: "failed too often in a row"}
		switch {
		case w.Denied:
			figure.Why = "the operator of the service denies requests to it"
		case w.Away:
			figure.Why = "it asks for no requests for longer than a run waits"
		case w.Abandoned && !w.Blocked:
			figure.Why = "its domain was abandoned, because too many of its URLs failed in a row"
		}
		if !w.Denied && !w.Away { // such a host has a warning of its own
			h.givenUp++
			h.givenUpURLs += w.Pages
		}
		h.blocked = top(h.blocked, figure, func(a HostFigure) int64 { return a.Waiting })
	}
	return nil
}

// top keeps the largest by weight, largest first, and by name where that is the same.
func top(list []HostFigure, item HostFigure, weight func(HostFigure) int64) []HostFigure {
	at := sort.Search(len(list), func(i int) bool {
		a, b := weight(list[i]), weight(item)
		return a < b || a == b && list[i].Host > item.Host
	})
	list = slices.Insert(list, at, item)
	return list[:min(len(list), maxHosts)]
}
