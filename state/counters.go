package state

import (
	"encoding/binary"
	"math"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state/internal/record"
)

// numOutcomes is how many outcomes are counted apart. Codes from numOutcomes-1
// on share the last place.
const numOutcomes = 32

// numSkipReasons is how many reasons for skipped links are counted apart. Codes from
// numSkipReasons-1 on share the last place.
const numSkipReasons = 32

// Counters count what was applied. Most of them count pages. A later visit of a page replaces what the visit before it
// added. Sitemaps are counted apart.
type Counters struct {
	Discovered uint64 // URLs found
	Finished   uint64 // URLs finished at least once
	Visits     uint64 // later visits that are queued and not finished
	Bytes      uint64 // sum of Finish.Bytes
	// Outcomes counts finished URLs by Finish.Outcome.
	Outcomes [numOutcomes]uint64
	// Status counts finished URLs by the first digit of their status; those
	// without one are in the first place.
	Status [6]uint64
	// Skips counts links that were found and not queued, by Skip.Reason.
	Skips [numSkipReasons]uint64

	// Generation is the latest one of a finish. Counted is how many of its pages
	// count towards page limits.
	Generation uint32
	Counted    uint64

	// Sitemaps are those found, SitemapsRead of them those finished at least once.
	// SitemapVisits are later visits that are queued and not finished.
	Sitemaps, SitemapsRead, SitemapVisits uint64
	// Checks are found too. They count among Sitemaps.
	Checks uint64
}

// Pending is how many visits of pages wait to be finished.
func (c *Counters) Pending() uint64 {
	// A page that was finished and never named is in Finished only.
	return c.Discovered - min(c.Finished, c.Discovered) + c.Visits
}

// Done is how many pages wait for no visit.
func (c *Counters) Done() uint64 { return c.Discovered - min(c.Discovered, c.Pending()) }

// PendingSitemaps is how many visits of sitemaps wait to be finished.
func (c *Counters) PendingSitemaps() uint64 {
	return c.Sitemaps - min(c.SitemapsRead, c.Sitemaps) + c.SitemapVisits
}

// found counts a URL that is new.
func (c *Counters) found(sitemap, check bool) {
	if check {
		c.Checks++
	}
	if sitemap {
		c.Sitemaps++
	} else {
		c.Discovered++
	}
}

// queuedAgain counts a later visit.
func (c *Counters) queuedAgain(sitemap bool) {
	if sitemap {
		c.SitemapVisits++
	} else {
		c.Visits++
	}
}

// finished counts a finish, which was not counted before.
func (c *Counters) finished(f *frontier.Finish) {
	if f.Sitemap {
		if f.Visit > 1 {
			c.SitemapVisits -= min(1, c.SitemapVisits)
		} else {
			c.SitemapsRead++
		}
		return
	}
	if f.Visit > 1 {
		c.Visits -= min(1, c.Visits) // it was queued, unless a record is wrong
		c.count(f.Before, ^uint64(0))
	} else {
		c.Finished++
	}
	c.count(f.Summary(), 1)
	if f.Generation > c.Generation {
		c.Generation, c.Counted = f.Generation, 0
	}
	if f.Counted && f.Generation == c.Generation {
		c.Counted++
	}
}

// count adds a summary, by being 1, or subtracts it, by being -1.
func (c *Counters) count(s frontier.Summary, by uint64) {
	c.Bytes += s.Bytes * by
	c.Outcomes[min(int(s.Outcome), numOutcomes-1)] += by
	class := int(s.Status / 100)
	if class >= len(c.Status) {
		class = 0
	}
	c.Status[class] += by
}

// Add adds the counters of another partition.
func (c *Counters) Add(o *Counters) {
	c.Discovered += o.Discovered
	c.Finished += o.Finished
	c.Visits += o.Visits
	c.Bytes += o.Bytes
	c.Sitemaps += o.Sitemaps
	c.SitemapsRead += o.SitemapsRead
	c.SitemapVisits += o.SitemapVisits
	c.Checks += o.Checks
	for i := range c.Outcomes {
		c.Outcomes[i] += o.Outcomes[i]
	}
	for i := range c.Status {
		c.Status[i] += o.Status[i]
	}
	for i := range c.Skips {
		c.Skips[i] += o.Skips[i]
	}
	if o.Generation > c.Generation {
		c.Generation, c.Counted = o.Generation, 0
	}
	if o.Generation == c.Generation {
		c.Counted += o.Counted
	}
}

// Append appends the counters as they are stored.
func (c *Counters) Append(dst []byte) []byte {
	for _, v := range []uint64{c.Discovered, c.Finished, c.Visits, c.Bytes, uint64(c.Generation), c.Counted} {
		dst = binary.AppendUvarint(dst, v)
	}
	for _, list := range [][]uint64{c.Outcomes[:], c.Status[:], c.Skips[:]} {
		n := len(list)
		for n > 0 && list[n-1] == 0 {
			n--
		}
		dst = binary.AppendUvarint(dst, uint64(n))
		for _, v := range list[:n] {
			dst = binary.AppendUvarint(dst, v)
		}
	}
	for _, v := range []uint64{c.Sitemaps, c.SitemapsRead, c.SitemapVisits} {
		dst = binary.AppendUvarint(dst, v)
	}
	if c.Checks > 0 {
		dst = binary.AppendUvarint(dst, c.Checks)
	}
	return dst
}

// DecodeCounters reads what Append wrote, in this or an earlier version. An error is a *CorruptError.
func DecodeCounters(b []byte) (Counters, error) {
	r := record.Reader{B: b}
	c := readCounters(&r)
	return c, r.Done("counters")
}

func readCounters(r *record.Reader) Counters {
	c := Counters{Discovered: r.Uvarint(), Finished: r.Uvarint(), Visits: r.Uvarint(), Bytes: r.Uvarint()}
	c.Generation, c.Counted = uint32(r.UpTo(math.MaxUint32)), r.Uvarint()
	for _, list := range [][]uint64{c.Outcomes[:], c.Status[:], c.Skips[:]} {
		if len(r.B) == 0 {
			break // counters that were added to the format later
		}
		n := r.UpTo(uint64(len(list)))
		for i := range n {
			list[i] = r.Uvarint()
		}
	}
	if len(r.B) > 0 { // these were added later too
		c.Sitemaps, c.SitemapsRead, c.SitemapVisits = r.Uvarint(), r.Uvarint(), r.Uvarint()
	}
	if len(r.B) > 0 { // and this
		c.Checks = r.Uvarint()
	}
	return c
}
