package page

import (
	"fmt"
	"strconv"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/disk"
)

// Status is the state of a crawl, or how it ended.
type Status string

// The statuses. Interrupted is only in the answer of status: the store says Running, and no process has it open, so the
// run ended without recording how.
const (
	Running     Status = "running"
	Interrupted Status = "interrupted"
	Complete    Status = "complete"
	Partial     Status = "partial"
	Failed      Status = "failed"
	Cancelled   Status = "cancelled"
)

// Names of the facts about a crawl as a whole in its store.
const (
	FactStatus = "status" // a Status
	FactReason = "reason" // why the last run that ended did so
	// FactGeneration is the number of the last recrawl that was begun, in decimal digits. A first crawl has none.
	FactGeneration = "generation"
)

// Generation is the generation of a crawl, by the facts of its store: 0 is the first crawl, 1 the first recrawl.
func Generation(facts map[string][]byte) (uint32, error) {
	text, known := facts[FactGeneration]
	if !known {
		return 0, nil
	}
	n, err := strconv.ParseUint(string(text), 10, 32)
	if err != nil {
		return 0, &disk.CorruptError{What: "the state directory",
			Reason: fmt.Sprintf("the generation is recorded as %q", text)}
	}
	return uint32(n), nil
}

// MaxStartsNamed is how many start URLs the errors and warnings of a report name.
const MaxStartsNamed = 10

// SourceProbe is the source of a probe, which is queued and recorded like a sitemap. Sitemaps have the sources 0 and 1.
const SourceProbe uint8 = 2

// SourceCheck is the source of a check: a URL outside of the crawl of which only the answer is wanted. It is queued and
// recorded like a sitemap too.
const SourceCheck uint8 = 3

// ProbeURL is a URL of the origin of u that no site has. It is another one in each crawl and generation, and cannot be
// foreseen, since keys depend on the crawl's seed.
func ProbeURL(h weburl.Hasher, u weburl.URL, generation uint32) (weburl.URL, error) {
	root, err := weburl.Parse(fmt.Sprintf("%s/?%d", u.Origin(), generation))
	if err != nil {
		return root, err
	}
	k := h.Key(root)
	return weburl.Parse(fmt.Sprintf("%s/%016x%016x", u.Origin(), k.Hi, k.Lo))
}
