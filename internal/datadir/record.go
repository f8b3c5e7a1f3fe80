package datadir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/internal/page"
)

// RecordName is the file in a data directory that lists the files that Mapwright wrote there, one name per line. A name
// is recorded, durably, before the file gets it. Other directories have no record.
const RecordName = "mapwright.files"

// ReportHTMLName is the report for people. It begins with reportHTMLMark.
const (
	ReportHTMLName = "report.html"
	reportHTMLMark = "<!doctype html>\n<html lang=\"en\" data-generator=\"mapwright\">"
)

// IndexName is the index of pages beside sitemap.jsonl, which package pageindex makes. It begins with indexMark in
// every version.
const (
	IndexName = "pages.index"
	indexMark = "MWPAGES"
)

// ChangesName is the file that lists what a recrawl found changed.
const ChangesName = "changes.jsonl"

// ParquetName, LinksParquetName and ProblemsParquetName are the tables of pages, links and problems for databases. They
// begin with parquetMark.
const (
	ParquetName         = "pages.parquet"
	LinksParquetName    = "links.parquet"
	ProblemsParquetName = "problems.parquet"
	parquetMark         = "PAR1"
)

// ProblemsName is the file with the problems of the site.
const ProblemsName = "problems.jsonl"

// ErrNotOurs means that a file which an export would replace was not written by Mapwright.
var ErrNotOurs = errors.New("was not written by Mapwright and is not replaced: move it, or write to another " +
	"directory with 'mapwright export --output'")

// startRecord makes the record of a data directory, if it has none, and adds names to it.
func startRecord(dir string, names ...string) error {
	f, err := os.OpenFile(filepath.Join(dir, RecordName), os.O_CREATE|os.O_RDWR|os.O_APPEND|disk.NoFollow, Private)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), addToRecord(dir, names...), disk.SyncDir(dir))
}

// HasRecord reports whether a directory has a record, which only data directories have.
func HasRecord(dir string) bool {
	info, err := os.Lstat(filepath.Join(dir, RecordName))
	return err == nil && info.Mode().IsRegular()
}

// recordedNames are the names in the record of a directory; none if it has no record.
func recordedNames(dir string) []string {
	if !HasRecord(dir) {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(dir, RecordName))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

// addToRecord does nothing in a directory without a record, or if that is not a regular file.
func addToRecord(dir string, names ...string) error {
	path := filepath.Join(dir, RecordName)
	// In a directory that others can write to, the record could be a link to any file.
	if info, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil
	} else if err != nil {
		return err
	}
	known := recordedNames(dir)
	var text strings.Builder
	for _, name := range names {
		if !slices.Contains(known, name) {
			text.WriteString(name + "\n")
		}
	}
	if text.Len() == 0 {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|disk.NoFollow, 0)
	if err != nil {
		return err
	}
	// A line that a crash cut off is ended first, so that it does not become part of a name.
	_, err = io.WriteString(f, "\n"+text.String())
	return errors.Join(err, f.Sync(), f.Close())
}

// Ours reports whether Mapwright wrote the file: it is a regular file that begins as an output of that name does, or an
// empty one whose name is in the directory's record. The record alone is not enough for a file that is not empty, since
// users replace files by their own.
func Ours(dir, name string) bool {
	path := filepath.Join(dir, name)
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	if IsSitemap(name) {
		_, ours := SitemapName(path)
		return ours
	}
	recorded := slices.Contains(recordedNames(dir), name)
	if info.Size() == 0 {
		return recorded
	}
	var mark string
	switch {
	case name == "sitemap.jsonl", name == ChangesName:
		mark = `{"schema_version":`
	case name == "sitemap.csv" && recorded:
		mark = "url," // other versions may have other columns
	case name == "sitemap.csv":
		mark = strings.Join(page.NewTable().Columns(), ",") // perhaps with columns of --extract after them
	case name == ParquetName, name == LinksParquetName, name == ProblemsParquetName:
		mark = parquetMark
	case name == ProblemsName:
		mark = `{"code":`
	case name == "links.jsonl":
		mark = `{"from":`
	case name == IndexName:
		mark = indexMark
	case name == ReportHTMLName:
		mark = reportHTMLMark
	default:
		return false
	}
	head, err := headOf(path, len(mark))
	return err == nil && string(head) == mark
}

// CheckFile returns ErrNotOurs if there is a file at the path that Mapwright did not write. An empty file may be
// replaced, since nothing is lost.
func CheckFile(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() && info.Size() == 0 {
		return nil
	}
	if !Ours(filepath.Dir(path), filepath.Base(path)) {
		return fmt.Errorf("%s %w", path, ErrNotOurs)
	}
	return nil
}

// headOf reads the beginning of a file. If the file is shorter, it returns what there is, and an error.
func headOf(path string, n int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			return nil, err
		}
	}
	head := make([]byte, n)
	n, err = io.ReadFull(in, head)
	return head[:n], err
}
