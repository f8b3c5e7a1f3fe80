package export

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/sync/errgroup"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/internal/web/sitemap"
)

// xmlFiles writes the XML sitemaps: one file if everything fits, else parts and an index over them. If there are pages
// of several hosts or, with Options.Split, of several directories, each of them has a set of its own, and the index is
// over the files of all sets. The number of sets is known only at the end, so the files have temporary names until
// then.
//
// Call add for each entry, then prepare, then publish. abort may be called at any time. It holds about 80 bytes for
// each set.
type xmlFiles struct {
	dir      string
	room     *datadir.Room
	base     string // address of the directory, with a slash at the end
	name     string // begins the names of all files
	byPath   bool   // each directory has a set
	gzip     bool
	options  sitemap.Options
	maxIndex int // entries of an index; 0 means the protocol's limit
	sections int // directories of a host that have sets of their own

	sets    []fileSet
	several bool // sets are of several hosts
	parts   []part
	// recent has the sets of the present host name, by host with port and section. Pages come by host name and then by
	// URL, so the pages of a port can come between the http pages and the https pages of a host.
	recent map[[2]string]int32
	host   string // the present host name
	// The pages in no directory come between those of directories, so their part stays open beside the other one.
	present, root openPart

	slow errgroup.Group // calls that wait for the disk
	// indexes are the names of the indexes that are written under temporary names: those of sets, then those over all
	// files.
	indexes []string
	over    []string // the indexes over all files, in order
	removed []string // sitemaps of an earlier export
}

// fileSet are the sitemaps of one host, or of one directory of a host.
type fileSet struct {
	host    string
	section string // datadir.Section; empty if the set has all pages of the host
	parts   int32
}

// part is one file with URLs.
type part struct {
	set     int32
	lastMod int64 // the newest, in seconds since 1970; noTime if there is none
}

// openPart is a part that is being written. Its buffers serve one file after the other.
type openPart struct {
	part int             // in xmlFiles.parts
	urls *sitemap.URLSet // nil if none is being written
	file *datadir.File
	buf  *bufio.Writer
	zip  *gzip.Writer
}

const noTime = math.MinInt64

// parallel is how many files are made durable, renamed or removed at once. For 20,000 small files on ext4 this takes a
// quarter of the time of one file after the other.
const parallel = 32

func newXMLFiles(o *Options) *xmlFiles {
	base := o.BaseURL
	if !strings.HasSuffix(base, "/") {
		base += "/"
	}
	x := &xmlFiles{dir: o.Dir, room: o.Room, base: base, name: cmp.Or(o.Name, sitemap.DefaultName),
		byPath: o.Split == "path", gzip: o.Gzip, maxIndex: o.MaxIndex,
		sections: cmp.Or(o.MaxSections, mostSections), recent: map[[2]string]int32{},
		options: sitemap.Options{Alternates: o.Hreflang, Images: o.Images, Videos: o.Videos, News: o.News,
			Priorities: len(o.Priorities) > 0,
			MaxURLs:    o.MaxURLs, MaxBytes: o.MaxBytes}}
	x.slow.SetLimit(parallel)
	return x
}

func (x *xmlFiles) suffix() string {
	if x.gzip {
		return ".xml.gz"
	}
	return ".xml"
}

// partName is the final name of a part if there is one set. With datadir.TempSuffix it is the temporary name of any
// part.
func (x *xmlFiles) partName(n int) string { return fmt.Sprintf("%s-%05d%s", x.name, n, x.suffix()) }

// stem begins the names of the files of a set, if there are several sets.
func (x *xmlFiles) stem(set *fileSet) string {
	host := set.host
	if x.byPath && !x.several {
		host = ""
	}
	return datadir.SitemapStem(x.name, host, set.section)
}

// label is written into each file of a set, or into the indexes over all files if the set is nil: which beginnings the
// final name of the file may have. Sets of hosts under the default name need none (see datadir.SitemapName).
func (x *xmlFiles) label(set *fileSet) string {
	switch {
	case x.name == sitemap.DefaultName && !x.byPath:
		return ""
	case set == nil:
		return x.name
	case x.byPath:
		return x.name + " " + datadir.SitemapStem(x.name, "", set.section) + " " +
			datadir.SitemapStem(x.name, set.host, set.section)
	}
	return x.name + " " + datadir.SitemapStem(x.name, set.host, "")
}

// add writes the entry of a URL, into the next part when the present one is full or another set's.
func (x *xmlFiles) add(u weburl.URL, e *sitemap.Entry) error {
	host := u.Origin()[len(u.Scheme())+len("://"):]
	p, section := &x.present, ""
	if x.byPath {
		if section = x.sectionOf(u, host); section == datadir.RootSection {
			p = &x.root
		}
	}
	if p.urls == nil || host != x.setOf(p).host || section != x.setOf(p).section {
		if err := x.next(p, x.enter(u.Host(), host, section)); err != nil {
			return err
		}
	}
	err := p.urls.Add(e)
	if errors.Is(err, sitemap.ErrFull) {
		if err := x.next(p, x.parts[p.part].set); err != nil {
			return err
		}
		err = p.urls.Add(e)
	}
	if err != nil {
		return err
	}
	if last := &x.parts[p.part].lastMod; !e.LastMod.IsZero() {
		*last = max(*last, e.LastMod.Unix())
	}
	return nil
}

// mostSections is how many directories of a host have sets of their own. A site with a directory for each page would
// have as many files as pages.
const mostSections = 1000

// sectionOf is the section of a page. That of a directory beyond the first ones is the section of the pages in no
// directory.
func (x *xmlFiles) sectionOf(u weburl.URL, host string) string {
	section := datadir.Section(u.Path())
	if u.Host() == x.host && len(x.recent) >= x.sections {
		if _, known := x.recent[[2]string{host, section}]; !known {
			return datadir.RootSection
		}
	}
	return section
}

func (x *xmlFiles) setOf(p *openPart) *fileSet { return &x.sets[x.parts[p.part].set] }

// enter returns the set of a section of a host. name is the host without its port.
func (x *xmlFiles) enter(name, host, section string) int32 {
	if name != x.host {
		clear(x.recent)
		x.host = strings.Clone(name)
	}
	set, known := x.recent[[2]string{host, section}]
	if !known {
		host = strings.Clone(host) // else the whole URL stays in memory
		set = int32(len(x.sets))
		x.several = x.several || set > 0 && host != x.sets[0].host
		x.sets = append(x.sets, fileSet{host: host, section: section})
		x.recent[[2]string{host, section}] = set
	}
	return set
}

// checkReplace checks the name of the sitemap or index that is always written, and the name of the first part.
func (x *xmlFiles) checkReplace() error {
	for _, name := range []string{x.partName(1), x.name + x.suffix()} {
		if err := datadir.CheckFile(filepath.Join(x.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// next ends the part that is being written, if there is one, and begins a part of a set.
func (x *xmlFiles) next(p *openPart, set int32) (err error) {
	if len(x.parts) == 0 {
		if err := x.checkReplace(); err != nil {
			return err
		}
	}
	if err := x.end(p); err != nil {
		return err
	}
	if p.file, err = x.create(p, x.partName(len(x.parts)+1)); err != nil {
		return err
	}
	p.part = len(x.parts)
	x.parts = append(x.parts, part{set: set, lastMod: noTime})
	x.sets[set].parts++
	o := x.options
	o.Label = x.label(&x.sets[set])
	p.urls = sitemap.NewURLSet(p.file, o)
	return nil
}

// create opens a file under its temporary name, with the buffers of an openPart that has no file.
func (x *xmlFiles) create(p *openPart, name string) (*datadir.File, error) {
	if p.buf == nil {
		p.buf = bufio.NewWriterSize(nil, datadir.BufferSize)
		if x.gzip {
			p.zip = gzip.NewWriter(nil)
		}
	}
	f, err := datadir.CreateWith(filepath.Join(x.dir, name), datadir.Public, p.buf, p.zip)
	if err == nil {
		x.room.Add(f, false)
	}
	return f, err
}

// end ends the part that is being written, if there is one.
func (x *xmlFiles) end(p *openPart) error {
	if p.urls == nil {
		return nil
	}
	err := p.urls.Close()
	p.urls = nil
	return errors.Join(err, x.seal(p.file))
}

// seal makes a file durable in another goroutine. prepare waits for it.
func (x *xmlFiles) seal(f *datadir.File) error {
	err := f.Flush()
	x.slow.Go(f.Sync)
	return err
}

// names are the final names of the parts, in the order in which they were written.
func (x *xmlFiles) names() iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		named := map[int32]int{} // parts of a set that have a name so far
		for i := range x.parts {
			set := x.parts[i].set
			name, own := "", &x.sets[set]
			switch {
			case len(x.parts) == 1:
				name = x.name + x.suffix()
			case len(x.sets) == 1:
				name = x.partName(i + 1)
			case own.parts == 1:
				name = x.stem(own) + x.suffix()
			default:
				named[set]++
				name = fmt.Sprintf("%s.%05d%s", x.stem(own), named[set], x.suffix())
			}
			if !yield(i, name) {
				return
			}
		}
	}
}

// count counts the sets, if there are several, and their parts.
func (x *xmlFiles) count() (s Sitemaps) {
	switch n := int64(len(x.sets)); {
	case n < 2:
		return s
	case x.byPath:
		s.Sections = n
	default:
		s.Hosts = n
	}
	s.Parts = int64(len(x.parts))
	return s
}

// prepare writes the indexes and checks that no file of another program would be replaced. After it, everything is
// durable under temporary names.
func (x *xmlFiles) prepare() (err error) {
	if err := errors.Join(x.end(&x.present), x.end(&x.root)); err != nil {
		return err
	}
	for _, name := range x.names() {
		if err := datadir.CheckFile(filepath.Join(x.dir, name)); err != nil {
			return err
		}
	}
	if len(x.sets) > 1 {
		if err := x.writeSetIndexes(); err != nil {
			return err
		}
	}
	if len(x.parts) > 1 {
		if x.over, err = x.writeIndex(nil, x.names()); err != nil {
			return err
		}
	}
	return x.slow.Wait()
}

// writeSetIndexes writes an index for each set that has several parts.
func (x *xmlFiles) writeSetIndexes() error {
	type numbered struct {
		part int
		name string
	}
	several := map[int32][]numbered{} // few: only sets of one host name can be incomplete at once
	for i, name := range x.names() {
		set := x.parts[i].set
		own := &x.sets[set]
		if own.parts == 1 {
			continue
		}
		if several[set] = append(several[set], numbered{i, name}); len(several[set]) < int(own.parts) {
			continue
		}
		parts := func(yield func(int, string) bool) {
			for _, p := range several[set] {
				if !yield(p.part, p.name) {
					return
				}
			}
		}
		if _, err := x.writeIndex(own, parts); err != nil {
			return err
		}
		delete(several, set)
	}
	return nil
}

// writeIndex writes an index over parts of a set, or of all sets if it is nil, under a temporary name. If there are
// more parts than the protocol allows, it writes further indexes with a number, because there is no index of indexes.
// It returns their names.
func (x *xmlFiles) writeIndex(set *fileSet, parts iter.Seq2[int, string]) (names []string, err error) {
	options, stem := sitemap.Options{MaxURLs: x.maxIndex, Label: x.label(set)}, x.name
	if set != nil {
		stem = x.stem(set)
	}
	var f *datadir.File
	var index *sitemap.Index
	end := func() error {
		if f == nil {
			return nil
		}
		return errors.Join(index.Close(), x.seal(f))
	}
	for i, name := range parts {
		entry := sitemap.Entry{Loc: x.base + name}
		if at := x.parts[i].lastMod; at != noTime {
			entry.LastMod = time.Unix(at, 0)
		}
		err := sitemap.ErrFull
		if f != nil {
			err = index.Add(&entry)
		}
		if errors.Is(err, sitemap.ErrFull) {
			if err = end(); err != nil {
				return nil, err
			}
			name := stem + x.suffix()
			if n := len(names) + 1; n > 1 {
				name = fmt.Sprintf("%s.%d%s", stem, n, x.suffix())
			}
			if err = datadir.CheckFile(filepath.Join(x.dir, name)); err != nil {
				return nil, err
			}
			if f, err = x.create(&x.present, name); err != nil {
				return nil, err
			}
			names = append(names, name)
			x.indexes = append(x.indexes, name)
			index = sitemap.NewIndex(f, options)
			err = index.Add(&entry)
		}
		if err != nil {
			return nil, err
		}
	}
	return names, end()
}

// publish gives the files their names: parts before the indexes that point to them, that over all files last. Then it
// removes stale files of an earlier export. It returns all names; those that a site submits come first.
func (x *xmlFiles) publish() ([]string, error) {
	names := slices.Clone(x.over)
	for _, name := range x.indexes {
		if !slices.Contains(x.over, name) {
			names = append(names, name)
		}
	}
	for i, name := range x.names() {
		names = append(names, name)
		x.slow.Go(func() error { return os.Rename(x.temp(x.partName(i+1)), filepath.Join(x.dir, name)) })
	}
	if err := x.slow.Wait(); err != nil {
		return nil, err
	}
	x.parts, x.sets = nil, nil
	if len(x.indexes) > 0 {
		if err := disk.SyncDir(x.dir); err != nil {
			return nil, err
		}
	}
	slices.Reverse(x.indexes[len(x.indexes)-len(x.over):])
	for len(x.indexes) > 0 {
		if err := os.Rename(x.temp(x.indexes[0]), filepath.Join(x.dir, x.indexes[0])); err != nil {
			return nil, err
		}
		x.indexes = x.indexes[1:]
	}
	return names, errors.Join(disk.SyncDir(x.dir), x.removeStale(names))
}

func (x *xmlFiles) temp(name string) string { return filepath.Join(x.dir, name+datadir.TempSuffix) }

// removeStale removes sitemaps of an earlier export that this one did not write again, and temporary files that killed
// exports left. A sitemap that another program made is not touched. In a data directory those of an earlier name are
// removed too. Several crawls can be exported to another directory under different names.
func (x *xmlFiles) removeStale(written []string) error {
	entries, err := os.ReadDir(x.dir)
	if err != nil {
		return err
	}
	keep, anyName := slices.Sorted(slices.Values(written)), datadir.HasRecord(x.dir)
	for _, e := range entries {
		name, unfinished := strings.CutSuffix(e.Name(), datadir.TempSuffix)
		if !datadir.IsSitemap(name) || !e.Type().IsRegular() {
			continue
		}
		if _, kept := slices.BinarySearch(keep, e.Name()); kept {
			continue
		}
		path := filepath.Join(x.dir, e.Name())
		of, ours := datadir.SitemapName(path)
		if unfinished || ours && (anyName || of == x.name) {
			x.slow.Go(func() error { return os.Remove(path) })
			if !unfinished {
				x.removed = append(x.removed, e.Name())
			}
		}
	}
	return x.slow.Wait()
}

// abort removes what was not published.
func (x *xmlFiles) abort() {
	for _, p := range []*openPart{&x.present, &x.root} {
		if p.urls != nil {
			p.file.Discard()
		}
	}
	_ = x.slow.Wait() // an error is returned by prepare
	for i := range x.parts {
		_ = os.Remove(x.temp(x.partName(i + 1)))
	}
	for _, name := range x.indexes {
		_ = os.Remove(x.temp(name))
	}
}
