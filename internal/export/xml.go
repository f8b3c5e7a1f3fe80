package export

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/internal/sitemap"
)

// xmlFiles writes the XML sitemaps: one file if everything fits, else parts and an index over them.
type xmlFiles struct {
	dir     string
	base    string // address of the directory, with a slash at the end
	gzip    bool
	options sitemap.Options

	parts   []*file
	lastMod []time.Time // the newest of each part
	set     *sitemap.URLSet
	removed []string // sitemaps of an earlier export
}

func (x *xmlFiles) suffix() string {
	if x.gzip {
		return ".xml.gz"
	}
	return ".xml"
}

func (x *xmlFiles) partName(n int) string { return fmt.Sprintf("sitemap-%05d%s", n, x.suffix()) }

// add writes an entry, into the next part when the present one is full.
func (x *xmlFiles) add(e *sitemap.Entry) error {
	if x.set == nil {
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
	if last := &x.lastMod[len(x.lastMod)-1]; e.LastMod.After(*last) {
		*last = e.LastMod
	}
	return nil
}

// checkReplace checks the names that the next part may get.
func (x *xmlFiles) checkReplace() error {
	for _, name := range []string{x.partName(len(x.parts) + 1), "sitemap" + x.suffix()} {
		if err := checkReplace(filepath.Join(x.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func (x *xmlFiles) next() error {
	if err := x.checkReplace(); err != nil {
		return err
	}
	f, err := create(filepath.Join(x.dir, x.partName(len(x.parts)+1)), Public, x.gzip)
	if err != nil {
		return err
	}
	x.parts = append(x.parts, f)
	x.lastMod = append(x.lastMod, time.Time{})
	x.set = sitemap.NewURLSet(f, x.options)
	return nil
}

func (x *xmlFiles) endPart() error {
	return errors.Join(x.set.Close(), x.parts[len(x.parts)-1].seal())
}

// close publishes the files and returns their names, the one to submit first. Stale files of an earlier export go last.
func (x *xmlFiles) close() ([]string, error) {
	if x.set != nil {
		if err := x.endPart(); err != nil {
			return nil, err
		}
	}
	var names []string
	switch len(x.parts) {
	case 0:
	case 1:
		only := x.parts[0]
		tmp := only.path + TempSuffix
		only.path = filepath.Join(x.dir, "sitemap"+x.suffix())
		if err := addToRecord(x.dir, filepath.Base(only.path)); err != nil {
			return nil, err
		}
		if err := os.Rename(tmp, only.path); err != nil {
			return nil, err
		}
		names = []string{filepath.Base(only.path)}
	default:
		index, err := x.publishParts()
		if err != nil {
			return nil, err
		}
		names = index
	}
	x.parts = nil
	return names, errors.Join(disk.SyncDir(x.dir), x.removeStale(names))
}

// publishParts names the parts before the index that points to them.
func (x *xmlFiles) publishParts() ([]string, error) {
	index, err := create(filepath.Join(x.dir, "sitemap"+x.suffix()), Public, x.gzip)
	if err != nil {
		return nil, err
	}
	defer index.discard()
	names := []string{filepath.Base(index.path)}
	var entries []sitemap.Entry
	for i, p := range x.parts {
		name := filepath.Base(p.path)
		names = append(names, name)
		entries = append(entries, sitemap.Entry{Loc: x.base + name, LastMod: x.lastMod[i]})
		if err := p.publish(); err != nil {
			return nil, err
		}
	}
	if err := sitemap.WriteIndex(index, entries); err != nil {
		return nil, err
	}
	if err := index.seal(); err != nil {
		return nil, err
	}
	return names, index.publish()
}

// removeStale removes sitemaps of an earlier export that this one did not write anew, and what exports that were killed left. A sitemap
// that another program made is not touched.
func (x *xmlFiles) removeStale(written []string) error {
	entries, err := os.ReadDir(x.dir)
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, n := range written {
		keep[n] = true
	}
	var errs []error
	for _, e := range entries {
		name, unfinished := strings.CutSuffix(e.Name(), TempSuffix)
		if !IsSitemap(name) || keep[e.Name()] || !e.Type().IsRegular() {
			continue
		}
		if path := filepath.Join(x.dir, e.Name()); unfinished || isOurs(path) {
			errs = append(errs, os.Remove(path))
			if !unfinished {
				x.removed = append(x.removed, e.Name())
			}
		}
	}
	return errors.Join(errs...)
}

// abort removes what was not published.
func (x *xmlFiles) abort() {
	for _, p := range x.parts {
		p.discard()
	}
}

// IsSitemap knows the names that an export gives to XML sitemaps: sitemap.xml, sitemap-00001.xml, each also with .gz.
func IsSitemap(name string) bool {
	name = strings.TrimSuffix(name, ".gz")
	if name == "sitemap.xml" {
		return true
	}
	var n int
	_, err := fmt.Sscanf(name, "sitemap-%05d.xml", &n)
	return err == nil && name == fmt.Sprintf("sitemap-%05d.xml", n)
}
