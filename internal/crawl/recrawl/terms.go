package recrawl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/page"
)

// Terms say when a recrawl began, and which URLs it visits again. They are stored with its generation, so that a resume
// goes on with them.
type Terms struct {
	// when the recrawl began; in whole milliseconds, as times in the store
	Began time.Time `json:"began,omitzero"`
	// only URLs that were last checked before this; zero means all
	CheckedBefore time.Time `json:"checked_before,omitzero"`
	// only URLs that match one of these expressions, if there are any
	Include []string `json:"include,omitempty"`
	Exclude []string `json:"exclude,omitempty"` // and none of these
}

// Names of the facts of a recrawl in the store, beside those of package page.
const (
	factTerms     = "recrawl" // Terms of the generation, as JSON
	factSwept     = "swept"   // the number of the last sweep whose visits are queued in all partitions
	factPartition = "swept "  // followed by a partition: the number of the last sweep whose visits are queued in it
	// followed by a host: the generation in which one of its answers 304 was false, and notRechecked until the others
	// of that generation are requested again
	factDistrust = "distrust "
)

// FactNames are the names of the facts of later visits, or their beginnings.
func FactNames() []string {
	return []string{page.FactGeneration, factTerms, factPartition, factDistrust, factReader}
}

// notRechecked is the suffix of factDistrust's value while the host's other 304s of the generation wait for a re-check.
const notRechecked = " open"

// generationOf is the generation of a crawl, by its facts. The start of a run has checked the fact (page.Generation).
func generationOf(facts map[string][]byte) uint32 { return decimal(facts[page.FactGeneration]) }

// Begin are the facts that begin a generation.
func Begin(generation uint32, t Terms) ([]frontier.CrawlFact, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	return []frontier.CrawlFact{{Name: page.FactGeneration, Value: digits(generation)},
		{Name: factTerms, Value: text}}, nil
}

// readTerms are the terms of the generation under way.
func readTerms(facts map[string][]byte) (t Terms, err error) {
	if text := facts[factTerms]; len(text) > 0 {
		if err := json.Unmarshal(text, &t); err != nil {
			return t, fmt.Errorf("read what the recrawl is to visit: %w", err)
		}
	}
	return t, nil
}

// Began is when the generation under way began, by the facts of the crawl. It is zero in the first crawl.
func Began(facts map[string][]byte) (time.Time, error) {
	t, err := readTerms(facts)
	return t.Began, err
}

func (t *Terms) matcher() (*scope.Matcher, error) { return scope.NewMatcher(t.Include, t.Exclude) }

// IsSwept reports whether all visits of the generation under way are queued, by the facts and the history of the crawl.
func IsSwept(facts map[string][]byte, h *scope.History) bool {
	number := sweepNumber(facts, h)
	return string(number) == "0" || bytes.Equal(facts[factSwept], number)
}

// sweepNumber is the number of the last sweep that is needed: the generation and, if the rules became wider, the
// edition in which they last did.
func sweepNumber(facts map[string][]byte, h *scope.History) []byte {
	n := digits(generationOf(facts))
	if edition := h.Widened(); edition > 0 {
		n = strconv.AppendUint(append(n, '.'), edition, 10)
	}
	return n
}

func digits(n uint32) []byte { return strconv.AppendUint(nil, uint64(n), 10) }

func decimal(text []byte) uint32 {
	n, _ := strconv.ParseUint(string(text), 10, 32)
	return uint32(n)
}
