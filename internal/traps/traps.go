package traps

import (
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// The traps, as they are named in records.
const (
	Length       = "url_length"
	Repeats      = "repeated_segments"
	Params       = "parameters"
	Combinations = "parameter_combinations"
	Ineffective  = "ineffective_parameter"
	Sequence     = "endless_sequence"
)

// Rules are the thresholds. Zero switches a rule off.
type Rules struct {
	MaxURLLength int // bytes
	Repeats      int // of a path segment
	Params       int // of a query
	Variants     int // combinations of parameters of one path
	Reorders     int // queries of one path that are others in another order
	Values       int // of a parameter that show the same pages, on several paths
	Barren       int // pages in a row that repeat a known text
}

// Kinds of evidence. FORMAT.md of package state lists them.
const (
	EvidenceParameter   frontier.EvidenceKind = 1 // component; value, rest, path, text, words
	EvidenceSequence    frontier.EvidenceKind = 2 // host; page, kind
	EvidenceCombination frontier.EvidenceKind = 3 // path; set, query, pairs
	EvidenceText        frontier.EvidenceKind = 6 // host and text
	EvidenceClaim       frontier.EvidenceKind = 7 // rest; owner, version and more
	EvidenceListed      frontier.EvidenceKind = 8 // subject of a trap; URL
)

// Traps recognises URLs of which a site can make endlessly many. It may be used by many goroutines.
//
// What it knows of pages is a fold: every change is evidence, which is applied at once and recorded with
// the page or link that it follows from. [Traps.Begin] and [Traps.End] stand around both.
type Traps struct {
	rules Rules
	hash  hasher

	pending sync.RWMutex // held for reading from when evidence is applied until it is committed

	mu     sync.Mutex
	texts  texts          // guarded by mu
	params parameters     // guarded by mu
	seqs   sequences      // guarded by mu
	combos combinations   // guarded by mu
	listed fifo[struct{}] // guarded by mu; by subject and URL: traps on record
	counts fifo[uint32]   // guarded by mu; by subject: how many of them
}

// MaxListed is how many traps of one path, component or host are put on record one by one. The others are
// counted.
const MaxListed = 500

const (
	maxListings = 1 << 17
	maxListers  = 1 << 14
)

// New makes one that knows nothing yet. The seed is that of the crawl.
func New(rules Rules, seed uint64) *Traps {
	t := &Traps{rules: rules, hash: hasher(seed)}
	t.reset()
	return t
}

func (t *Traps) reset() {
	t.texts, t.params, t.seqs, t.combos = newTexts(), newParameters(t.rules.Values), newSequences(), newCombinations()
	t.listed, t.counts = newFIFO[struct{}](maxListings), newFIFO[uint32](maxListers)
}

// Begin is called before [Traps.Read], [Traps.Answered] or [Traps.Failed] for a page, or before links are
// added, and End when the record with their evidence is committed or given up. Snapshot waits for End.
func (t *Traps) Begin() { t.pending.RLock() }

// End ends what Begin began.
func (t *Traps) End() { t.pending.RUnlock() }

// A Decision is what becomes of a link.
type Decision struct {
	Trap string // the link is this trap; "" if it is none
	Skip bool   // it is not put on record, because enough traps of its kind are
}

// Admit judges a new link, and appends evidence to e. A link from a start list or a sitemap is not judged by what
// other pages say: listed is true for it.
func (t *Traps) Admit(l *frontier.Link, listed bool, e []frontier.Evidence) (Decision, []frontier.Evidence) {
	if trap := t.static(l.URL); trap != "" {
		return Decision{Trap: trap}, e
	}
	combo, combined := t.hash.comboOf(l.URL)
	partition := l.Key.Host.Partition()
	t.mu.Lock()
	defer t.mu.Unlock()
	url := uint64(0)
	rest, id, claims := t.restOf(l.URL)
	if claims {
		url = t.hash.sum(l.URL.String())
		if c, ok := t.params.claims.get(rest); ok && !c.mayClaim(url, l.Repeats) && !t.movesClaim(&c, l) {
			if !listed {
				return t.list(Ineffective, id, l, e)
			}
			claims = false
		}
	}
	if l.Repeats > 0 && t.rules.Barren > 0 && !listed {
		host := t.hash.sum(l.URL.Host())
		if page := t.hash.sum(l.Parent.String()); !t.seqs.pages.has(pageKey(host, page, barrenPage)) {
			e = t.apply(e, frontier.Evidence{Partition: partition, Kind: EvidenceSequence, Subject: host, Words: []uint64{page, barrenPage}})
		}
		if int(l.Repeats) > t.seqs.limit(host, t.rules.Barren) {
			return t.list(Sequence, host, l, e)
		}
	}
	if combined {
		if t.combos.judge(&combo, t.rules.Variants, t.rules.Reorders) {
			return t.list(Combinations, combo.path, l, e)
		}
		e = t.apply(e, frontier.Evidence{Partition: partition, Kind: EvidenceCombination, Subject: combo.path, Words: combo.words()})
	}
	if claims {
		e = t.claim(rest, url, l.Repeats, partition, e)
	}
	return Decision{}, e
}

// movesClaim reports whether a link is where the owner of a claim redirects to.
func (t *Traps) movesClaim(c *claim, l *frontier.Link) bool {
	return l.Hops > 0 && c.owner == t.hash.sum(l.Parent.String())
}

// static judges a URL by itself.
func (t *Traps) static(u urlnorm.URL) string {
	switch {
	case len(u.String()) > t.rules.MaxURLLength:
		return Length
	case t.rules.Repeats > 0 && repeats(u.Path(), t.rules.Repeats):
		return Repeats
	case t.rules.Params > 0 && runawayParams(u.Query(), t.rules.Params):
		return Params
	}
	return ""
}

// list puts a trap on record, unless there are enough of its subject.
func (t *Traps) list(trap string, subject uint64, l *frontier.Link, e []frontier.Evidence) (Decision, []frontier.Evidence) {
	if n, _ := t.counts.get(subject); n >= MaxListed {
		return Decision{Trap: trap, Skip: true}, e
	}
	e = t.apply(e, frontier.Evidence{Partition: l.Key.Host.Partition(), Kind: EvidenceListed, Subject: subject, Words: []uint64{t.hash.sum(l.URL.String())}})
	return Decision{Trap: trap}, e
}

// Lease judges a URL again that was queued, because much may have been learned since, and returns the trap that
// it is, or "".
func (t *Traps) Lease(l *frontier.Link, listed bool) string {
	if listed {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.Repeats > 0 && t.rules.Barren > 0 && int(l.Repeats) > t.seqs.limit(t.hash.sum(l.URL.Host()), t.rules.Barren) {
		return Sequence
	}
	if rest, _, ok := t.restOf(l.URL); ok {
		if c, claimed := t.params.claims.get(rest); claimed && !c.mayClaim(t.hash.sum(l.URL.String()), l.Repeats) {
			return Ineffective
		}
	}
	return ""
}

// Answered says that there was an answer to a URL: it stands for its rest from now on. It appends evidence
// to e.
func (t *Traps) Answered(l *frontier.Link, e []frontier.Evidence) []frontier.Evidence {
	t.mu.Lock()
	defer t.mu.Unlock()
	rest, _, ok := t.restOf(l.URL)
	if !ok {
		return e
	}
	url := t.hash.sum(l.URL.String())
	if c, claimed := t.params.claims.get(rest); claimed && (c.owner == url || !c.mayClaim(url, l.Repeats)) {
		return e
	}
	return t.claim(rest, url, l.Repeats, l.Key.Host.Partition(), e)
}

// Failed says that no answer to a URL came that can be relied on. Another URL of the same page may be
// tried.
func (t *Traps) Failed(l *frontier.Link, e []frontier.Evidence) []frontier.Evidence {
	t.mu.Lock()
	defer t.mu.Unlock()
	rest, _, ok := t.restOf(l.URL)
	if !ok {
		return e
	}
	c, ok := t.params.claims.get(rest)
	if !ok || c.owner != t.hash.sum(l.URL.String()) {
		return e
	}
	c.owner, c.version, c.failures = 0, c.version+1, c.failures+1
	return t.apply(e, claimEvidence(l.Key.Host.Partition(), rest, c))
}

// Read takes the text of a page that was read, and its words, which are the text without numbers. It returns
// the repeats of the page's links, and appends evidence to e.
func (t *Traps) Read(l *frontier.Link, text, words uint64, e []frontier.Evidence) (repeats uint8, _ []frontier.Evidence) {
	if t.rules.Barren == 0 && t.rules.Values == 0 {
		return 0, e
	}
	partition, host := l.Key.Host.Partition(), l.URL.Host()
	sum := t.hash.withText(host, text)
	t.mu.Lock()
	defer t.mu.Unlock()
	known := !t.texts.add(sum)
	if !known {
		e = append(e, frontier.Evidence{Partition: partition, Kind: EvidenceText, Subject: sum})
	}
	if l.Visit > 1 {
		return 0, e // the text may be the page's own
	}
	if t.rules.Values > 0 {
		var buf [maxComponents]component
		for _, c := range t.hash.appendComponents(buf[:0], l.URL) {
			e = t.readComponent(partition, l.URL, c, text, words, e)
		}
	}
	if known {
		return uint8(min(int(l.Repeats)+1, 255)), e
	}
	if l.Repeats > 0 {
		e = t.apply(e, frontier.Evidence{
			Partition: partition, Kind: EvidenceSequence, Subject: t.hash.sum(host), Words: []uint64{t.hash.sum(l.URL.String()), fruitfulPage},
		})
	}
	return 0, e
}

// readComponent appends the evidence about one component of a page that was read, if it can change anything.
func (t *Traps) readComponent(partition uint8, u urlnorm.URL, c component, text, textWords uint64, e []frontier.Evidence) []frontier.Evidence {
	if t.params.ineffective.has(c.subject) {
		return e
	}
	s := u.String()
	rest := t.hash.sum(s[:c.start], s[c.end:])
	if t.params.skips(c.subject, rest) || t.params.hasDiffered(c.subject, rest) {
		return e
	}
	path := len(s) - len(u.RequestURI()) + len(u.Path()) // where it ends
	words := []uint64{t.hash.sum(s[c.start:c.end]), rest, rest, text, textWords}
	if len(u.Query()) > 0 {
		if c.start < path {
			words[2] = t.hash.sum(s[:c.start], s[c.end:path])
		} else {
			words[2] = t.hash.sum(s[:path])
		}
	}
	return t.apply(e, frontier.Evidence{Partition: partition, Kind: EvidenceParameter, Subject: c.subject, Words: words})
}

// apply folds evidence in and appends it to a list.
func (t *Traps) apply(list []frontier.Evidence, e frontier.Evidence) []frontier.Evidence {
	t.fold(&e)
	return append(list, e)
}

// Fold takes in evidence of an earlier run. Evidence that is taken in again changes nothing, and so does
// evidence of other kinds.
func (t *Traps) Fold(e frontier.Evidence) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fold(&e)
}

func (t *Traps) fold(e *frontier.Evidence) {
	switch w := e.Words; {
	case e.Kind == EvidenceText:
		t.texts.add(e.Subject)
	case e.Kind == EvidenceParameter && len(w) >= 5:
		t.params.observe(e.Subject, w[1], w[2], observation{value: w[0], text: w[3], words: w[4]})
	case e.Kind == EvidenceSequence && len(w) >= 2:
		t.seqs.observe(e.Subject, w[0], w[1])
	case e.Kind == EvidenceCombination && len(w) >= 2:
		t.combos.observe(e.Subject, w[0], w[1], w[2:])
	case e.Kind == EvidenceClaim && len(w) >= 2:
		t.params.takeClaim(e.Subject, claimOf(w[0], w[1]))
	case e.Kind == EvidenceListed && len(w) >= 1:
		if t.listed.add(e.Subject ^ w[0]) {
			n, _ := t.counts.get(e.Subject)
			t.counts.put(e.Subject, n+1)
		}
	}
}

// hasher computes hashes under the seed of a crawl, so that a site cannot choose URLs whose hashes are equal.
type hasher uint64

// sum is the hash of texts one after the other.
func (h hasher) sum(texts ...string) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(uint64(h))
	for _, s := range texts {
		_, _ = d.WriteString(s) // a Digest never fails
		_, _ = d.WriteString("\x00")
	}
	return d.Sum64()
}

// withText is the hash of a host's name and of a text.
func (h hasher) withText(host string, text uint64) uint64 {
	return h.sum(host) ^ text*0x9e3779b97f4a7c15
}
