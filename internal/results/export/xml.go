package export

import (
	"bufio"
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
// of several hosts, each host has a set of its own, and the index is over the files of all sets. The number of hosts is
// known only at the end, so the files have temporary names until then.
//
// Call add for each entry, then prepare, then publish. abort may be called at any time. It holds about 60 bytes for
// each host.
type xmlFiles struct {
	dir      string
	base     string // address of the directory, with a slash at the end
	gzip     bool
	options  sitemap.Options
	maxIndex int // entries of an index; 0 means the protocol's limit

	sets  []hostSet
	parts []part
	// recent has the sets of the present host name, by host with port. Pages come by host name and then by URL, so the
	// pages of a port can come between the http pages and the https pages of a host.
	recent map[string]int32
	name   string // the present host name
	now    int32  // the set of the last entry
	set    *sitemap.URLSet
	file   *datadir.File // of set
	buf    *bufio.Writer
	zip    *gzip.Writer

	slow errgroup.Group // calls that wait for the disk
	// indexes are the names of the indexes that are written under temporary names: those of hosts, then those over all
	// files.
	indexes []string
	over    []string // the indexes over all files, in order
	removed []string // sitemaps of an earlier export
}

// hostSet are the sitemaps of one host.
type hostSet struct {
	host  string
	parts int32
}

// part is one file with URLs.
type part struct {
	set     int32
	lastMod int64 // the newest, in seconds since 1970; noTime if there is none
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
	x := &xmlFiles{dir: o.Dir, base: base, gzip: o.Gzip, maxIndex: o.MaxIndex, recent: map[string]int32{},
		options: sitemap.Options{Alternates: o.Hreflang, Images: o.Images, Priorities: len(o.Priorities) > 0,
			MaxURLs: o.MaxURLs, MaxBytes: o.MaxBytes}}
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
func (x *xmlFiles) partName(n int) string { return fmt.Sprintf("sitemap-%05d%s", n, x.suffix()) }

// add writes the entry of a URL, into the next part when the present one is full or another host's.
func (x *xmlFiles) add(u weburl.URL, e *sitemap.Entry) error {
	if host := u.Origin()[len(u.Scheme())+len("://"):]; x.set == nil || host != x.sets[x.now].host {
		if err := x.endPart(); err != nil {
			return err
		}
		x.enter(u.Host(), host)
		if err := x.next(); err != nil {
			return err
		}
	}
	err := x.set.Add(e)
	if errors.Is(err, sitemap.ErrFull) {
		if err := x.endPart(); err != nil {
			return err
		}
		if err := x.next(); err != nil {
			return err
		}
		err = x.set.Add(e)
	}
	if err != nil {
		return err
	}
	if last := &x.parts[len(x.parts)-1].lastMod; !e.LastMod.IsZero() {
		*last = max(*last, e.LastMod.Unix())
	}
	return nil
}

// enter makes the set of a host the present one. name is the host without its port.
func (x *xmlFiles) enter(name, host string) {
	if name != x.name {
		clear(x.recent)
		x.name = strings.Clone(name)
	}
	now, known := x.recent[host]
	if !known {
		host = strings.Clone(host) // else the whole URL stays in memory
		now = int32(len(x.sets))
		x.sets = append(x.sets, hostSet{host: host})
		x.recent[host] = now
	}
	x.now = now
}

// checkReplace checks the name of the sitemap or index that is always written, and the name of the first part.
func (x *xmlFiles) checkReplace() error {
	for _, name := range []string{x.partName(1), "sitemap" + x.suffix()} {
		if err := datadir.CheckFile(filepath.Join(x.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// next begins a part of the present set.
func (x *xmlFiles) next() (err error) {
	if len(x.parts) == 0 {
		if err := x.checkReplace(); err != nil {
			return err
		}
	}
	if x.file, err = x.create(x.partName(len(x.parts) + 1)); err != nil {
		return err
	}
	x.parts = append(x.parts, part{set: x.now, lastMod: noTime})
	x.sets[x.now].parts++
	x.set = sitemap.NewURLSet(x.file, x.options)
	return nil
}

// create opens a file under its temporary name. One file is open at a time, and all use the same buffers.
func (x *xmlFiles) create(name string) (*datadir.File, error) {
	if x.buf == nil {
		x.buf = bufio.NewWriterSize(nil, datadir.BufferSize)
		if x.gzip {
			x.zip = gzip.NewWriter(nil)
		}
	}
	return datadir.CreateWith(filepath.Join(x.dir, name), datadir.Public, x.buf, x.zip)
}

// endPart ends the part that is being written, if there is one.
func (x *xmlFiles) endPart() error {
	if x.set == nil {
		return nil
	}
	err := x.set.Close()
	x.set = nil
	return errors.Join(err, x.seal(x.file))
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
				name = "sitemap" + x.suffix()
			case len(x.sets) == 1:
				name = x.partName(i + 1)
			case own.parts == 1:
				name = datadir.SitemapStem(own.host) + x.suffix()
			default:
				named[set]++
				name = fmt.Sprintf("%s.%05d%s", datadir.SitemapStem(own.host), named[set], x.suffix())
			}
			if !yield(i, name) {
				return
			}
		}
	}
}

// prepare writes the indexes and checks that no file of another program would be replaced. After it, everything is
// durable under temporary names.
func (x *xmlFiles) prepare() (err error) {
	if err := x.endPart(); err != nil {
		return err
	}
	for _, name := range x.names() {
		if err := datadir.CheckFile(filepath.Join(x.dir, name)); err != nil {
			return err
		}
	}
	if len(x.sets) > 1 {
		if err := x.writeHostIndexes(); err != nil {
			return err
		}
	}
	if len(x.parts) > 1 {
		if x.over, err = x.writeIndex("sitemap", x.names()); err != nil {
			return err
		}
	}
	return x.slow.Wait()
}

// writeHostIndexes writes an index for each host that has several parts.
func (x *xmlFiles) writeHostIndexes() error {
	type numbered struct {
		part int
		name string
	}
	several := map[int32][]numbered{} // few: only hosts that differ in the port can be incomplete at once
	for i, name := range x.names() {
		set := x.parts[i].set
		own := x.sets[set]
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
		if _, err := x.writeIndex(datadir.SitemapStem(own.host), parts); err != nil {
			return err
		}
		delete(several, set)
	}
	return nil
}

// writeIndex writes an index over parts, under a temporary name. If there are more parts than the protocol allows, it
// writes further indexes with a number, because there is no index of indexes. It returns their names.
func (x *xmlFiles) writeIndex(stem string, parts iter.Seq2[int, string]) (names []string, err error) {
	limits := sitemap.Options{MaxURLs: x.maxIndex}
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
			if f, err = x.create(name); err != nil {
				return nil, err
			}
			names = append(names, name)
			x.indexes = append(x.indexes, name)
			index = sitemap.NewIndex(f, limits)
			err = index.Add(&entry)
		}
		if err != nil {
			return nil, err
		}
	}
	return names, end()
}

// publish gives the files their names: parts before the indexes that point to them, sitemap.xml last. Then it removes
// stale files of an earlier export. It returns all names; those that a site submits come first.
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
	hosts := len(x.indexes) - len(x.over)
	slices.Reverse(x.indexes[hosts:])
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
// exports left. A sitemap that another program made is not touched.
func (x *xmlFiles) removeStale(written []string) error {
	entries, err := os.ReadDir(x.dir)
	if err != nil {
		return err
	}
	keep := slices.Sorted(slices.Values(written))
	for _, e := range entries {
		name, unfinished := strings.CutSuffix(e.Name(), datadir.TempSuffix)
		if !datadir.IsSitemap(name) || !e.Type().IsRegular() {
			continue
		}
		if _, kept := slices.BinarySearch(keep, e.Name()); kept {
			continue
		}
		if path := filepath.Join(x.dir, e.Name()); unfinished || datadir.Ours(x.dir, e.Name()) {
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
	if x.set != nil {
		x.file.Discard()
	}
	_ = x.slow.Wait() // an error is returned by prepare
	for i := range x.parts {
		_ = os.Remove(x.temp(x.partName(i + 1)))
	}
	for _, name := range x.indexes {
		_ = os.Remove(x.temp(name))
	}
}
