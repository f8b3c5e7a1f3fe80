package recrawl

import (
	"bytes"
	"fmt"
	"math/bits"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// Known is what earlier visits recorded of a URL.
type Known struct {
	Outcome page.Outcome
	Status  int
	Facts   *page.Facts // those that hold
	// OtherReader means that the facts were read in another way. Hashes of texts cannot be compared then: the
	// content hash decides.
	OtherReader bool

	CheckedAt time.Time // when the last visit was
	ChangedAt time.Time // when a change was last seen
	Changes   uint32    // how many visits saw a change
	Failures  uint8     // visits in a row that failed, while facts were kept
}

// KnownFrom reads what was recorded. The facts of f must be those that hold, and not those of one visit.
func KnownFrom(f *frontier.Finish) (*Known, error) {
	facts, err := page.Decode(f.Facts)
	if err != nil {
		return nil, err
	}
	return &Known{
		Outcome: page.Outcome(f.Outcome), Status: int(f.Status), Facts: facts, CheckedAt: f.CheckedAt,
		ChangedAt: f.ChangedAt, Changes: f.Changes, Failures: f.Failures,
	}, nil
}

// Answer is what a visit found.
type Answer struct {
	Outcome page.Outcome
	Status  int
	At      time.Time
	Bytes   int64       // how many came
	Header  http.Header // needed only for a 304
	// Facts are the facts of the answer. Judge changes those that depend on what was known.
	Facts page.Facts
	// Modified is when the page itself says that it was last modified; zero if it does not.
	Modified time.Time
	// Conditional means that the request carried the headers of Conditions.
	Conditional bool
	// NoCache means that the request asked caches not to answer.
	NoCache bool
	// Verifies means that an earlier request of the same generation was answered 304, and that this one is made to find
	// out whether that was true.
	Verifies bool
}

// Reading says whether an answer is enough and, if not, how to request the page once more.
type Reading uint8

// The ways of asking.
const (
	ReadNothing Reading = iota // the answer is enough
	ReadPage                   // without conditions; the answer verifies a 304
	ReadAround                 // without conditions, and with no-cache
)

// Verdict is what to record of a visit.
type Verdict struct {
	// ReadAgain, if it is not ReadNothing, means that nothing is to be recorded: the page must be asked for once more.
	ReadAgain Reading
	// FalseNotModified means that the request before was answered 304 although the page had changed.
	FalseNotModified bool

	Outcome page.Outcome
	Status  int
	// Facts are what to record. If KeepFacts is set, they are about this visit only, and may be nil.
	Facts      *page.Facts
	RedirectTo string // of the facts that hold
	KeepFacts  bool

	NotModified bool
	// Unverified means that the request before was answered 304, and that the attempt to verify it failed. If another
	// 304 of the host turns out to be false, the page is requested again.
	Unverified  bool
	Change      page.Change
	ChangedAt   time.Time
	Changes     uint32
	Failures    uint8
	Differences []byte
}

// Record is the stored form of what a verdict says of an answer.
func (v *Verdict) Record(a *Answer) *frontier.Finish {
	f := &frontier.Finish{CheckedAt: a.At, Bytes: uint64(max(a.Bytes, 0))}
	if v.Facts != nil {
		if v.Facts != &a.Facts {
			a.Facts = *v.Facts
		}
		f = a.Record()
	}
	f.Outcome, f.Status, f.RedirectTo = uint8(v.Outcome), uint16(v.Status), v.RedirectTo
	f.KeepFacts, f.NotModified, f.Change, f.ChangedAt = v.KeepFacts, v.NotModified || v.Unverified, uint8(v.Change),
		v.ChangedAt
	f.Changes, f.Failures, f.Differences = v.Changes, v.Failures, v.Differences
	return f
}

// maxFacts bounds the facts of one page, in bytes. A record of the store must hold them and a little more. Only a page
// with almost 8 MiB of links under --links, and with several --extract that each find 256 long values, reaches it.
const maxFacts = state.MaxRecordSize - 1<<20

// Record is the stored form of an answer. The worker makes it, because the frontier commits with its locks held. If the
// facts are too large for a record, links, images and extracted values are left out, and Facts.Error says so.
func (a *Answer) Record() *frontier.Finish {
	a.Facts.Bound()
	facts := a.Facts.Append(make([]byte, 0, 512))
	if len(facts) > maxFacts {
		a.Facts.Links, a.Facts.Images, a.Facts.Extracted, a.Facts.Assets = nil, nil, nil, nil
		a.Facts.Error = fmt.Sprintf("its links, images and extracted values are not recorded: together they have %d "+
			"bytes, and the limit is %d", len(facts), maxFacts)
		facts = a.Facts.Append(facts[:0])
	}
	return &frontier.Finish{
		Outcome: uint8(a.Outcome), Status: uint16(a.Status), CheckedAt: a.At, Bytes: uint64(max(a.Bytes, 0)),
		RedirectTo: a.Facts.RedirectTo, Facts: facts,
	}
}

// keptFailures is how many visits in a row may fail before a failure is recorded instead of what was known.
const keptFailures = 3

// Judge compares an answer with what is known of its URL, which is nil if this is the first visit. It is for recrawls,
// and for later visits of the first crawl, where the caller drops the change that it reports.
func Judge(known *Known, now *Answer) Verdict {
	switch {
	case now.Status == http.StatusNotModified && now.Conditional:
		return judgeNotModified(known, now)
	case now.Status == http.StatusNotModified && !now.NoCache, now.Conditional && refusesConditions(now.Status):
		return Verdict{ReadAgain: ReadAround}
	case known == nil:
		v := now.verdict()
		v.Change = page.New
		v.Differences = appendDifferences(nil, now.At, compare(&Known{Facts: &page.Facts{}}, now))
		return v
	case isTransient(now.Outcome, now.Status, &now.Facts) && !isTransient(known.Outcome, known.Status, known.Facts) &&
		(known.Failures < keptFailures || now.Verifies):
		return judgeFailure(known, now)
	}
	return judgeAnswer(known, now)
}

// isTransient reports whether an outcome may soon be another one although the page has not changed.
func isTransient(o page.Outcome, status int, f *page.Facts) bool {
	switch o {
	case page.Timeout, page.DNSError, page.ConnectError, page.TLSError, page.ReadError, page.Throttled:
		return true
	case page.HTTPError:
		return status >= 500
	case page.BlockedByRobots:
		return f.Robots.Low // robots.txt could not be fetched, and --robots-strict treats that as a prohibition
	}
	return false
}

// verdict returns the verdict that records the answer as it is, without a change.
func (a *Answer) verdict() Verdict {
	return Verdict{Outcome: a.Outcome, Status: a.Status, Facts: &a.Facts, RedirectTo: a.Facts.RedirectTo}
}

// kept returns the verdict that records what was known.
func (k *Known) kept() Verdict {
	return Verdict{
		Outcome: k.Outcome, Status: k.Status, RedirectTo: k.Facts.RedirectTo, KeepFacts: true, ChangedAt: k.ChangedAt,
		Changes: k.Changes, Failures: k.Failures,
	}
}

// Keep is the verdict of a visit that was not made, for the given reason.
func (k *Known) Keep(why string) *Verdict {
	v := k.kept()
	v.Facts = &page.Facts{Error: why}
	return &v
}

// judgeNotModified is for a 304 to a request with conditions. What is known stays as it was read: pages to which this
// one linked then count as named until it is read again. So it is read again if the 304 says anything else.
func judgeNotModified(known *Known, now *Answer) Verdict {
	facts := known.Facts
	if rulesDiffer(facts.HeaderRules, now.Header) || dateMoved(facts, now.Header) || facts.SmallChanges != nil ||
		isDateBelieved(facts, now) {
		return Verdict{ReadAgain: ReadPage}
	}
	v := known.kept()
	v.NotModified, v.Change, v.Failures = true, page.Unchanged, 0
	return v
}

// isDateBelieved reports whether the date of last modification, which was too close to the time of the first answer,
// can be believed now that it has not moved.
func isDateBelieved(facts *page.Facts, now *Answer) bool {
	return !facts.NotLastMod && facts.LastModified.IsZero() &&
		!lastModified(facts.LastModifiedHeader, now.Header, now.At).IsZero()
}

// judgeFailure is for a failure that may pass: what is known stays, with a count of failures. If the request was made
// to verify a 304, the 304 stays.
func judgeFailure(known *Known, now *Answer) Verdict {
	v := known.kept()
	v.Facts = &page.Facts{Error: now.Facts.Error}
	switch {
	case v.Facts.Error != "":
	case now.Status != 0:
		v.Facts.Error = "the last check was answered " + strconv.Itoa(now.Status)
	default:
		v.Facts.Error = "the last check found that robots.txt could not be fetched"
	}
	if now.Verifies {
		v.Change, v.Unverified = page.Unchanged, true
		return v
	}
	v.Failures++
	return v
}

// judgeAnswer is for an answer that replaces what is known, or confirms it.
func judgeAnswer(known *Known, now *Answer) Verdict {
	text := compareText(known, now)
	carryOver(known, now, text)
	v := now.verdict()
	v.ChangedAt, v.Changes = known.ChangedAt, known.Changes
	all := compare(known, now)
	v.FalseNotModified = now.Verifies && isHidden(known, now, text, all)
	switch {
	case len(all) == 0:
		v.Change = page.Unchanged
		if saysTheSame(known.Facts, &now.Facts) {
			v.KeepFacts, v.Facts, v.RedirectTo = true, nil, known.Facts.RedirectTo
		}
		return v
	case isGone(now.Outcome, now.Status) && isThere(known.Outcome):
		v.Change = page.Gone
	case now.Outcome == page.OK && isGone(known.Outcome, known.Status):
		v.Change = page.Back
	default:
		v.Change = page.Changed
	}
	v.ChangedAt = now.At
	v.Changes++
	v.Differences = appendDifferences(nil, now.At, all)
	return v
}

// isHidden reports whether an answer shows that the 304 before it hid a change. Some differences have other causes: what
// keeps the crawl from the page (robots.txt, a refusal, a limit), another way to read it, rules of the headers, which a
// 304 can change, and the date and the length of a document, which can differ between the servers of a host.
func isHidden(known *Known, now *Answer, text textResult, all []Difference) bool {
	before, after := known.Facts, &now.Facts
	switch {
	case now.Outcome != page.OK:
		return isThere(now.Outcome) || isGone(now.Outcome, now.Status)
	case text == textDiffers:
		return true
	case known.OtherReader || before.HeaderRules != after.HeaderRules:
		return false
	}
	return linksDiffer(before, after) || slices.ContainsFunc(all, func(d Difference) bool {
		return d.Field == Title || d.Field == CanonicalURL || d.Field == NoIndex || d.Field == ContentType
	})
}

// linksDiffer reports whether two pages have different numbers of links. For changes.jsonl a page whose text stayed has
// not changed by that.
func linksDiffer(before, after *page.Facts) bool {
	return before.LinkCount != nil && after.LinkCount != nil && *before.LinkCount != *after.LinkCount
}

// isGone reports whether there is no page.
func isGone(o page.Outcome, status int) bool {
	return o == page.HTTPError && (status == http.StatusNotFound || status == http.StatusGone)
}

// isThere reports whether there is a page, here or elsewhere.
func isThere(o page.Outcome) bool {
	return o == page.OK || o == page.Redirect || o == page.RedirectLoop
}

// textResult is what the comparison of two texts says.
type textResult uint8

const (
	textUnknown textResult = iota // one of the two was not read
	textStayed
	textDiffers
)

// compareText compares the texts of pages that were read, and documents by their strong tags.
func compareText(known *Known, now *Answer) textResult {
	if known.Outcome != page.OK || now.Outcome != page.OK {
		return textUnknown
	}
	before, after := known.Facts, &now.Facts
	switch {
	case before.TextHash != nil && after.TextHash != nil && !known.OtherReader:
		return stayedIf(*before.TextHash == *after.TextHash)
	case sameContent(before, after):
		return textStayed
	case isStrong(before.ETag) && isStrong(after.ETag) && before.TextHash == nil && after.TextHash == nil:
		return stayedIf(sameTag(before.ETag, after.ETag))
	}
	return textUnknown
}

func sameContent(before, after *page.Facts) bool {
	return before.ContentHash != nil && after.ContentHash != nil && *before.ContentHash == *after.ContentHash
}

func stayedIf(same bool) textResult {
	if same {
		return textStayed
	}
	return textDiffers
}

// carryOver completes the facts of an answer by what depends on earlier visits: whether the Last-Modified header can be
// believed, and how many times in a row the text changed a little.
func carryOver(known *Known, now *Answer, text textResult) {
	before, after := known.Facts, &now.Facts
	moved := text == textStayed && before.LastModifiedHeader != "" && after.LastModifiedHeader != "" &&
		before.LastModifiedHeader != after.LastModifiedHeader
	if before.NotLastMod || moved {
		after.NotLastMod = true
		after.LastModified.Time = now.Modified
	}
	if text == textDiffers && isNear(before, after) {
		n := 1
		if before.SmallChanges != nil {
			n = min(*before.SmallChanges+1, maxSmallChanges)
		}
		after.SmallChanges = &n
	}
}

// isNear reports whether two texts differ only a little. It is false if one of them has no simhash: the first crawl
// usually computes none.
func isNear(before, after *page.Facts) bool {
	return before.SimHash != nil && after.SimHash != nil &&
		bits.OnesCount64(uint64(*before.SimHash^*after.SimHash)) <= smallDistance
}

const (
	smallDistance   = 3 // bits of a simhash in which texts that differ in little may differ
	maxSmallChanges = 100
)

// saysTheSame reports whether the facts of two visits are the same, without those that differ at every visit. A simhash
// that was not computed before is no difference: it is written when the text changes.
func saysTheSame(before, after *page.Facts) bool {
	a, b := *before, *after
	a.ResponseTime, b.ResponseTime = nil, nil
	a.Robots.CheckedAt, b.Robots.CheckedAt = time.Time{}, time.Time{}
	if a.SimHash == nil {
		b.SimHash = nil
	}
	if b.Archived == "" { // this crawl writes no archive
		a.Archived = ""
	}
	return bytes.Equal(a.Append(nil), b.Append(nil))
}
