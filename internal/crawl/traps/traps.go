package traps

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
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

// The thresholds. MaxURLLength holds even if the rules are off.
const (
	MaxURLLength = 2048
	MaxRepeats   = 4      // of a path segment
	MaxParams    = 20     // of a query
	MaxVariants  = 20_000 // combinations of parameters of one path
	MaxReorders  = 100    // queries of one path that are an earlier one in another order
	MinValues    = 48     // values of a parameter that show the same pages, on several paths
	MaxBarren    = 100    // pages in a row that repeat a known text
)

// Kinds of evidence, each with its subject and, after a semicolon, its words. FORMAT.md of package state lists them.
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
	on       bool // otherwise only MaxURLLength holds
	variants int  // MaxVariants; less in tests
	hash     hasher

	pending sync.RWMutex // held for reading from when evidence is applied until it is committed

	// ineffective has the components that have no effect. It is replaced, under mu, and never changed: URLs are
	// judged by it without a lock.
	ineffective atomic.Pointer[fifo[struct{}]]

	mu     sync.Mutex     // no text is hashed while it is held
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

// New makes a Traps that knows nothing yet. Seed is the seed of the crawl.
func New(on bool, seed uint64) *Traps {
	t := &Traps{on: on, variants: MaxVariants, hash: hasher(seed)}
	t.reset()
	return t
}

func (t *Traps) reset() {
	t.texts, t.params, t.seqs, t.combos = newTexts(), newParameters(), newSequences(), newCombinations()
	none := newFIFO[struct{}](maxIneffective)
	t.ineffective.Store(&none)
	t.listed, t.counts = newFIFO[struct{}](maxListings), newFIFO[uint32](maxListers)
}

// ForgetTexts drops what was computed from the texts of pages, because another reader hashes them in another way.
// Components that are known to have no effect stay so.
func (t *Traps) ForgetTexts() {
	t.mu.Lock()
	defer t.mu.Unlock()
	claims := t.params.claims
	t.texts, t.params, t.seqs = newTexts(), newParameters(), newSequences()
	t.params.claims = claims
}

// Begin is called before [Traps.Read], [Traps.Answered] or [Traps.Failed] for a page, or before links are added. End is
// called when the record with their evidence is committed or given up. Snapshot waits for End.
func (t *Traps) Begin() { t.pending.RLock() }

// End ends what Begin began.
func (t *Traps) End() { t.pending.RUnlock() }

// A Decision is what becomes of a link.
type Decision struct {
	Trap string // the trap that the link belongs to, or ""
	Skip bool   // it is not put on record, because enough traps of its kind are
}

// Admit judges a new link, and appends evidence to e. Listed is true for a link from a start list or a sitemap, which
// is not judged by what other pages say.
func (t *Traps) Admit(l *frontier.Link, listed bool, e []frontier.Evidence) (Decision, []frontier.Evidence) {
	if trap := t.static(l.URL); trap != "" {
		return Decision{Trap: trap}, e
	}
	if !t.on {
		return Decision{}, e
	}
	combo, combined := t.hash.comboOf(l.URL)
	rest, component, claims := t.restOf(l.URL)
	repeats := l.Repeats > 0 && !listed
	if !combined && !claims && !repeats {
		return Decision{}, e
	}
	partition, url := l.Key.Host.Partition(), t.hash.sum(l.URL.String())
	var host, parent uint64
	if claims || repeats {
		host, parent = t.hash.sum(l.URL.Host()), t.hash.sum(l.Parent.String())
	}
	query := frontier.Evidence{Partition: partition, Kind: EvidenceCombination, Subject: combo.path}
	query.Words = combo.words()
	t.mu.Lock()
	defer t.mu.Unlock()
	if claims {
		c, ok := t.params.claims.get(rest)
		moved := l.Hops > 0 && c.owner == parent // the owner of the claim redirects to it
		if ok && !c.mayClaim(url, l.Repeats) && !moved {
			if !listed {
				return t.list(Ineffective, component, url, partition, e)
			}
			claims = false
		}
	}
	if repeats {
		if !t.seqs.pages.has(pageKey(host, parent, barrenPage)) {
			e = t.apply(e, sequenceEvidence(partition, host, parent, barrenPage))
		}
		if int(l.Repeats) > t.seqs.limit(host) {
			return t.list(Sequence, host, url, partition, e)
		}
	}
	if combined {
		if t.combos.judge(&combo, t.variants) {
			return t.list(Combinations, combo.path, url, partition, e)
		}
		e = t.apply(e, query)
	}
	if claims {
		e = t.claim(rest, url, l.Repeats, partition, e)
	}
	return Decision{}, e
}

// static judges a URL by itself.
func (t *Traps) static(u weburl.URL) string {
	switch {
	case len(u.String()) > MaxURLLength:
		return Length
	case t.on && repeats(u.Path(), MaxRepeats):
		return Repeats
	case t.on && runawayParams(u.Query(), MaxParams):
		return Params
	}
	return ""
}

// list puts a URL that is a trap on record, unless there are enough of its subject.
func (t *Traps) list(
	trap string, subject, url uint64, partition uint8, e []frontier.Evidence,
) (Decision, []frontier.Evidence) {
	if n, _ := t.counts.get(subject); n >= MaxListed {
		return Decision{Trap: trap, Skip: true}, e
	}
	listed := frontier.Evidence{Partition: partition, Kind: EvidenceListed, Subject: subject, Words: []uint64{url}}
	return Decision{Trap: trap}, t.apply(e, listed)
}

// JudgeQueued judges a URL again that was queued, because much may have been learned since, and returns the trap that
// it is, or "".
func (t *Traps) JudgeQueued(l *frontier.Link, listed bool) string {
	if listed || !t.on {
		return ""
	}
	rest, _, claims := t.restOf(l.URL)
	repeats := l.Repeats > 0
	if !claims && !repeats {
		return ""
	}
	host, url := t.hash.sum(l.URL.Host()), t.hash.sum(l.URL.String())
	t.mu.Lock()
	defer t.mu.Unlock()
	if repeats && int(l.Repeats) > t.seqs.limit(host) {
		return Sequence
	}
	if c, claimed := t.params.claims.get(rest); claims && claimed && !c.mayClaim(url, l.Repeats) {
		return Ineffective
	}
	return ""
}

// Answered notes that a URL was answered: it stands for its rest from now on, unless another URL does. It appends
// evidence to e.
func (t *Traps) Answered(l *frontier.Link, e []frontier.Evidence) []frontier.Evidence {
	rest, _, ok := t.restOf(l.URL)
	if !ok {
		return e
	}
	url := t.hash.sum(l.URL.String())
	t.mu.Lock()
	defer t.mu.Unlock()
	if c, claimed := t.params.claims.get(rest); claimed && (c.owner == url || !c.mayClaim(url, l.Repeats)) {
		return e
	}
	return t.claim(rest, url, l.Repeats, l.Key.Host.Partition(), e)
}

// Failed notes that a URL had no answer that can be relied on. Another URL with the same rest may be tried.
func (t *Traps) Failed(l *frontier.Link, e []frontier.Evidence) []frontier.Evidence {
	rest, _, ok := t.restOf(l.URL)
	if !ok {
		return e
	}
	url := t.hash.sum(l.URL.String())
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := t.params.claims.get(rest)
	if !ok || c.owner != url {
		return e
	}
	c.owner, c.version, c.failures = 0, c.version+1, c.failures+1
	return t.apply(e, claimEvidence(l.Key.Host.Partition(), rest, c))
}

// Read takes the hashes of a page's text and of its words, which are the text without numbers. It returns the repeats
// of the page's links, and appends evidence to e.
func (t *Traps) Read(
	l *frontier.Link, text, words uint64, e []frontier.Evidence,
) (repeats uint8, _ []frontier.Evidence) {
	if !t.on {
		return 0, e
	}
	partition, host := l.Key.Host.Partition(), l.URL.Host()
	sum := t.hash.withText(host, text)
	var buf [maxComponents]component
	list := t.components(buf[:0], l)
	t.mu.Lock()
	known := !t.texts.add(sum)
	list = slices.DeleteFunc(list, func(c component) bool { return !t.params.learns(c.subject, c.rest) })
	t.mu.Unlock()
	if !known {
		e = append(e, frontier.Evidence{Partition: partition, Kind: EvidenceText, Subject: sum})
	}
	first := len(e)
	for _, c := range list {
		e = append(e, t.componentEvidence(partition, l.URL, c, text, words))
	}
	if l.Repeats > 0 && !known && l.Visit <= 1 {
		e = append(e, sequenceEvidence(partition, t.hash.sum(host), t.hash.sum(l.URL.String()), fruitfulPage))
	}
	t.Fold(e[first:]...)
	if known && l.Visit <= 1 { // at a later visit the text may be known from the page itself
		repeats = uint8(min(int(l.Repeats)+1, 255))
	}
	return repeats, e
}

// components appends the components that a page may say something about.
func (t *Traps) components(list []component, l *frontier.Link) []component {
	if l.Visit > 1 {
		return list
	}
	suspected, s := t.ineffective.Load(), l.URL.String()
	list = t.hash.appendComponents(list, l.URL)
	for i := range list {
		list[i].rest = t.hash.sum(s[:list[i].start], s[list[i].end:])
	}
	return slices.DeleteFunc(list, func(c component) bool { return suspected.has(c.subject) })
}

// componentEvidence is the evidence about one component of a page that was read.
func (t *Traps) componentEvidence(
	partition uint8, u weburl.URL, c component, text, textWords uint64,
) frontier.Evidence {
	s := u.String()
	path := len(s) - len(u.RequestURI()) + len(u.Path()) // where the path ends
	words := []uint64{t.hash.sum(s[c.start:c.end]), c.rest, c.rest, text, textWords}
	if len(u.Query()) > 0 {
		if c.start < path {
			words[2] = t.hash.sum(s[:c.start], s[c.end:path])
		} else {
			words[2] = t.hash.sum(s[:path])
		}
	}
	return frontier.Evidence{Partition: partition, Kind: EvidenceParameter, Subject: c.subject, Words: words}
}

// apply folds evidence in and appends it to a list.
func (t *Traps) apply(list []frontier.Evidence, e frontier.Evidence) []frontier.Evidence {
	t.fold(&e)
	return append(list, e)
}

// Fold takes in evidence, such as that of an earlier run. Evidence that was taken in before, or that is of another
// kind, changes nothing.
func (t *Traps) Fold(list ...frontier.Evidence) {
	if len(list) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range list {
		t.fold(&list[i])
	}
}

func (t *Traps) fold(e *frontier.Evidence) {
	switch w := e.Words; {
	case e.Kind == EvidenceText:
		t.texts.add(e.Subject)
	case e.Kind == EvidenceParameter && len(w) >= 5:
		now := observation{value: w[0], text: w[3], words: w[4]}
		if known := t.ineffective.Load(); !known.has(e.Subject) && t.params.observe(e.Subject, w[1], w[2], now) {
			more := known.clone()
			more.add(e.Subject)
			t.ineffective.Store(more)
		}
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
	var buf [256]byte
	b := buf[:0]
	for _, s := range texts {
		b = append(append(b, s...), 0)
	}
	var d xxhash.Digest
	d.ResetWithSeed(uint64(h))
	_, _ = d.Write(b) // a Digest never fails
	return d.Sum64()
}

// withText is the hash of a host's name and of a text.
func (h hasher) withText(host string, text uint64) uint64 {
	return h.sum(host) ^ text*0x9e3779b97f4a7c15
}
