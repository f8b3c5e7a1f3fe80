package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/page"
)

// Section is a part of the site: the URLs of one origin with the same first directory. URLs beside the directories
// belong to the section of the root.
type Section struct {
	Section   string `json:"section"` // an address that ends in a slash
	URLs      int64  `json:"urls"`
	Indexable int64  `json:"indexable"`
	Bytes     int64  `json:"bytes"`            // of the bodies, after decompression
	P50       *int64 `json:"p50_ms,omitempty"` // of those that answered
	P95       *int64 `json:"p95_ms,omitempty"`
}

// sections sums up sections. The URLs of a directory come together, and those of an origin too, so that only one
// directory and the root around it are summed at a time.
type sections struct {
	root, directory open
	total           int64
	largest         []Section
}

// open is a section whose URLs still come.
type open struct {
	Section
	times histogram
}

// maxSections is how many sections a report has.
const maxSections = 100

func (s *sections) see(l *page.Line, ms int64) {
	root, directory := split(l.URL)
	if root != s.root.Section.Section {
		s.end()
		s.root.Section.Section = strings.Clone(root)
	}
	if directory == "" {
		s.root.see(l, ms)
		return
	}
	if directory != s.directory.Section.Section {
		s.file(&s.directory)
		s.directory.Section.Section = strings.Clone(directory)
	}
	s.directory.see(l, ms)
}

// split finds the root of a URL's origin, and its first directory, which is empty if the URL is beside the directories.
func split(u weburl.URL) (root, directory string) {
	text, at := u.String(), len(u.Origin())+1
	if slash := strings.IndexByte(u.Path()[1:], '/'); slash >= 0 {
		directory = text[:at+slash+1]
	}
	return text[:at], directory
}

func (o *open) see(l *page.Line, ms int64) {
	o.URLs++
	if l.Indexable {
		o.Indexable++
	}
	if l.ContentLength != nil {
		o.Bytes += *l.ContentLength
	}
	if ms >= 0 {
		o.times.add(ms)
	}
}

// end adds the open sections to the list.
func (s *sections) end() {
	s.file(&s.directory)
	s.file(&s.root)
}

// file adds a complete section to the list, and makes o ready for the next.
func (s *sections) file(o *open) {
	if o.URLs > 0 {
		s.total++
		if o.times.total > 0 {
			o.P50, o.P95 = new(o.times.quantile(50)), new(o.times.quantile(95))
		}
		at, _ := slices.BinarySearchFunc(s.largest, o.Section, compareSections)
		if at < maxSections {
			s.largest = slices.Insert(s.largest, at, o.Section)
			s.largest = s.largest[:min(len(s.largest), maxSections)]
		}
	}
	o.Section = Section{}
	o.times.clear()
}

// compareSections puts the larger first.
func compareSections(a, b Section) int {
	return cmp.Or(cmp.Compare(b.URLs, a.URLs), strings.Compare(a.Section, b.Section))
}

func (s *sections) list() *List[Section] {
	if s.total == 0 {
		return nil
	}
	return &List[Section]{Total: s.total, Cut: s.total - int64(len(s.largest)), Items: s.largest}
}
