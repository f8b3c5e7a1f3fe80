package problems

import (
	"cmp"
	"context"
	"encoding/binary"
	"iter"
	"slices"
	"strconv"

	"github.com/mapwright/mapwright/internal/extsort"
	"github.com/mapwright/mapwright/internal/page"
)

// subject is what others may mention: a URL whose answer is known.
type subject struct {
	Hash  uint64
	URL   string
	Line  int64
	Is    uint8
	Value string   // its answer if it is broken, where it leads if it has moved, else why it is not indexable
	Hops  []string // of a redirect that needs more than one hop
	IDs   string   // of a page: the text form of page.Facts.IDs, if fragments are checked
}

// What a subject is, as bits.
const (
	subjectPage uint8 = 1 << iota
	subjectIndexable
	subjectBroken
	subjectMoved   // 301 or 308
	subjectChained // a redirect of two hops or more
	subjectLinked  // links are not recorded, but it is known that a page links to it or a redirect leads to it
	subjectOrphan  // it is an orphan if no other page links to it
)

func (s *subject) fields(r *extsort.Record) {
	r.Uint64(&s.Hash).Text(&s.URL).Int64(&s.Line).Byte(&s.Is).Text(&s.Value).Texts(&s.Hops).Text(&s.IDs)
}

// mention says that one page refers to another.
type mention struct {
	To   uint64 // the hash of the URL that is mentioned
	Kind uint8
	Peer uint64 // mentionNames: the hash of what is named; mentionNamedBy: the hash of URL
	URL  string // who mentions it, where that matters
	Line int64  // of URL
	// mentionFragment: the fragment, and the text of the link
	Texts []string
}

// Kinds of mentions, in the order in which those of one URL are looked at.
const (
	mentionFollowed   uint8 = iota // another page has a link to it that is followed
	mentionLinked                  // another page has a link to it
	mentionRedirected              // another URL redirects to it
	mentionCanonical               // a page names it as its canonical address
	// it names a language version itself; those that name it are compared with this
	mentionNames
	mentionNamedBy  // a page names it as a language version
	mentionFragment // a page links to an element of it
)

func (m *mention) fields(r *extsort.Record) {
	r.Uint64(&m.To).Byte(&m.Kind).Text(&m.URL).Uint64(&m.Peer).Int64(&m.Line).Texts(&m.Texts)
}

// recentLinks is how many links are remembered, to leave out most of the links that every page of a site has. It is a
// power of two.
const recentLinks = 1 << 18

// relate adds the mentions that a page makes, and the page itself as a subject.
func (f *Finder) relate(v *view) {
	self := hashOf(v.URL)
	add := func(m mention) {
		if f.err == nil {
			f.err = f.mentions.Add(m)
		}
	}
	by := func(url string, kind uint8) mention {
		return mention{To: hashOf(url), Kind: kind, Peer: self, URL: v.URL, Line: v.number}
	}
	if to := v.RedirectTo; to != "" && to != v.URL {
		f.judgeOutside(v, to, "")
		add(mention{To: hashOf(to), Kind: mentionRedirected})
	}
	if v.isPage && v.Canonical != "" && v.Canonical != v.URL {
		add(by(v.Canonical, mentionCanonical))
	}
	if v.isPage {
		for _, a := range v.Hreflang {
			if a.URL != v.URL {
				add(mention{To: self, Kind: mentionNames, Peer: hashOf(a.URL)})
				add(by(a.URL, mentionNamedBy))
			}
		}
	}
	if f.o.Links {
		f.relateLinks(v)
	}
	f.judgeAssets(v)
	if s := f.subject(v, self); isSettled(v.Line) && f.err == nil {
		f.err = f.subjects.Add(s)
	}
}

// relateLinks adds mentions for the links of a page. One mention of a URL is enough, because only the existence of a
// link matters.
func (f *Finder) relateLinks(v *view) {
	for i := range v.Links {
		l := &v.Links[i]
		if l.Fragment != "" && f.looks(BrokenFragment) && f.err == nil {
			f.err = f.mentions.Add(mention{To: hashOf(l.To), Kind: mentionFragment, URL: v.URL, Line: v.number,
				Texts: []string{l.Fragment, l.Text}})
		}
		if l.To == v.URL || f.err != nil {
			continue
		}
		f.judgeOutside(v, l.To, l.Text)
		kind := mentionFollowed
		if l.NoFollow && !f.o.FollowNofollow {
			kind = mentionLinked
		}
		to := hashOf(l.To)
		if slot := &f.recent[(to+uint64(kind))%recentLinks]; *slot != to+uint64(kind) {
			*slot = to + uint64(kind)
			f.err = f.mentions.Add(mention{To: to, Kind: kind})
		}
	}
}

// judgeOutside looks whether a page links to a URL outside of the crawl that has a problem.
func (f *Finder) judgeOutside(v *view, to, text string) {
	if f.o.Checked == nil || f.err != nil {
		return
	}
	found, checked := f.o.Checked(to)
	var code Code
	switch {
	case !checked:
		return
	case found.IsBroken():
		code = BrokenExternal
	case found.IsUnknown():
		code = ExternalUnchecked
	default:
		return
	}
	if !f.looks(code) || v.isAsset(to) {
		return // a file is judged as such
	}
	hash := hashOf(to)
	if last, known := f.outside[hash]; known && last == v.number {
		return // a page counts once, with the text of its first link
	}
	f.outside[hash] = v.number
	f.addOutside(code, to, checkedAnswer(&found), v.URL, v.number, text)
}

// checkedAnswer is the status code that a check found, or the outcome if that says more.
func checkedAnswer(found *page.Checked) string {
	if found.Outcome == page.HTTPError || found.Outcome == page.Throttled {
		return strconv.Itoa(found.StatusCode)
	}
	return found.Outcome.String()
}

// judgeAssets looks whether the files that a page uses have problems.
func (f *Finder) judgeAssets(v *view) {
	if f.o.Checked == nil {
		return
	}
	for _, file := range v.Assets {
		found, checked := f.o.Checked(file)
		most := int64(MaxFile)
		if found.IsImage {
			most = MaxImage
		}
		switch {
		case !checked:
		case found.IsBroken() && f.looks(BrokenAsset):
			f.addOutside(BrokenAsset, file, checkedAnswer(&found), v.URL, v.number, "")
		case found.Size > most && f.looks(LargeAsset):
			f.addOutside(LargeAsset, file, strconv.FormatInt(found.Size, 10), v.URL, v.number, "")
		}
	}
}

// subject describes a page for the join with its mentions.
func (f *Finder) subject(v *view, self uint64) subject {
	s := subject{Hash: self, URL: v.URL, Line: v.number, Value: v.IndexableReason}
	set := func(is bool, bit uint8) {
		if is {
			s.Is |= bit
		}
	}
	set(v.isPage, subjectPage)
	set(v.isIndexable, subjectIndexable)
	if v.isPage && len(v.IDs) > 0 && f.looks(BrokenFragment) {
		s.IDs = packIDs(v.IDs)
	}
	if isBroken(v.Line) {
		s.Is, s.Value = s.Is|subjectBroken, answerOf(v.Line)
	}
	if v.Outcome == page.Redirect.String() {
		if v.StatusCode == 301 || v.StatusCode == 308 {
			s.Is, s.Value = s.Is|subjectMoved, v.RedirectTo
		}
		if len(v.Hops) > 1 {
			s.Is, s.Hops = s.Is|subjectChained, v.Hops
		}
	}
	if v.isIndexable && v.Source != page.SourceName(page.SourceStart) {
		known := f.o.Links || v.Linked || v.InSitemap
		set(known, subjectOrphan)
		if !known {
			f.unjudged++
		}
	}
	set(!f.o.Links && v.Linked, subjectLinked)
	return s
}

// joinMentions joins subjects with the mentions of them.
func (f *Finder) joinMentions(ctx context.Context) error {
	next, stop := iter.Pull2(f.mentions.Sorted(ctx))
	defer stop()
	m, err, more := next()
	for s, failed := range f.subjects.Sorted(ctx) {
		if failed != nil {
			return failed
		}
		for ; more && err == nil && m.To < s.Hash; m, err, more = next() {
		}
		j := joining{subject: s, f: f}
		for ; more && err == nil && m.To == s.Hash; m, err, more = next() {
			j.take(&m)
		}
		j.end()
		if err := cmp.Or(err, f.err); err != nil {
			return err
		}
	}
	return err
}

// joining is one subject with what its mentions have said so far.
type joining struct {
	subject
	f        *Finder
	followed bool
	linked   bool
	reached  bool            // by a redirect
	names    map[uint64]bool // the language versions that it names
	ids      page.IDs        // read from IDs when they are needed
	last     mention         // the last mentionFragment
}

// take looks at the next mention.
func (j *joining) take(m *mention) {
	switch m.Kind {
	case mentionFollowed:
		j.followed, j.linked = true, true
	case mentionLinked:
		j.linked = true
	case mentionRedirected:
		j.reached = true
	case mentionCanonical:
		if j.Is&subjectIndexable == 0 {
			j.f.add(CanonicalBad, m.URL, m.Line, j.reason(), j.URL)
		}
	case mentionNames:
		if j.names == nil {
			j.names = map[uint64]bool{}
		}
		j.names[m.Peer] = true
	case mentionNamedBy:
		if j.Is&subjectPage != 0 && !j.names[m.Peer] {
			j.f.add(HreflangNoReturn, m.URL, m.Line, "", j.URL)
		}
	case mentionFragment:
		j.takeFragment(m)
	}
}

// takeFragment looks whether a fragment of a link leads to an element of the subject. The links of a page to the same
// element follow each other, and the first counts.
func (j *joining) takeFragment(m *mention) {
	if j.IDs == "" || m.URL == j.last.URL && m.Texts[0] == j.last.Texts[0] {
		return
	}
	j.last = *m
	if j.ids == nil {
		j.ids = page.NewIDs(unpackIDs(j.IDs))
	}
	if j.ids.Lacks(m.Texts[0]) {
		j.f.addOutside(BrokenFragment, j.URL+"#"+m.Texts[0], "", m.URL, m.Line, m.Texts[1])
	}
}

// packIDs makes a text of numbers, and unpackIDs reads it.
func packIDs(list []uint64) string {
	b := make([]byte, 0, 4*len(list))
	for _, n := range list {
		b = binary.AppendUvarint(b, n)
	}
	return string(b)
}

func unpackIDs(text string) (list []uint64) {
	for b := []byte(text); len(b) > 0; {
		n, size := binary.Uvarint(b)
		list, b = append(list, n), b[max(1, size):]
	}
	return list
}

// addOutside notes a URL that is no page of the crawl, with a page that links to it by the given text.
func (f *Finder) addOutside(c Code, url, value, from string, line int64, text string) {
	if f.err == nil {
		f.err = f.found.Add(finding{Code: c, URL: url, Line: outsideLine, Value: value})
	}
	if f.err == nil {
		f.err = f.found.Add(finding{Code: c, URL: url, Line: line, Seq: 1, Related: []string{from},
			Texts: []string{text}})
	}
}

// reason is why the subject is not indexable.
func (j *joining) reason() string {
	switch {
	case j.Is&subjectBroken != 0:
		return page.NotStatus
	case j.Is&subjectMoved != 0:
		return page.NotRedirect
	}
	return j.Value
}

// end judges the subject, when all mentions are taken.
func (j *joining) end() {
	f, is := j.f, func(bit uint8) bool { return j.Is&bit != 0 }
	if is(subjectChained) && !j.reached {
		f.add(RedirectChain, j.URL, j.Line, strconv.Itoa(len(j.Hops)), j.Hops...)
	}
	if is(subjectOrphan) && !is(subjectLinked) && !j.followed && !j.reached {
		f.add(Orphan, j.URL, j.Line, "")
	}
	if is(subjectBroken) && (j.linked || j.reached || is(subjectLinked)) {
		f.add(BrokenLink, j.URL, j.Line, j.Value)
		f.broken = append(f.broken, j.Hash)
	}
	if is(subjectMoved) && j.linked {
		f.add(LinkToRedirect, j.URL, j.Line, j.Value)
		f.moved = append(f.moved, j.Hash)
	}
}

// Targets is the number of URLs for which SeeLinks must find the linking pages. It may be called after Join.
func (f *Finder) Targets() int {
	if !f.o.Links {
		return 0
	}
	return len(f.broken) + len(f.moved)
}

// SeeLinks notes the links of a page to targets. A page counts once for each, with the text of its first link.
func (f *Finder) SeeLinks(l *page.Line) error {
	url := l.URL.String()
	var seen map[uint64]bool
	for i := range l.Links {
		link := &l.Links[i]
		if link.To == url || f.err != nil {
			continue
		}
		to, code := hashOf(link.To), BrokenLink
		if _, is := slices.BinarySearch(f.broken, to); !is {
			code = LinkToRedirect
			if _, is := slices.BinarySearch(f.moved, to); !is {
				continue
			}
		}
		if seen[to] {
			continue
		}
		if seen == nil {
			seen = map[uint64]bool{}
		}
		seen[to] = true
		f.err = f.found.Add(finding{Code: code, URL: link.To, Line: noLine, Seq: 1, Related: []string{url},
			Texts: []string{link.Text}})
	}
	return f.failed()
}
