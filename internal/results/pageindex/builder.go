package pageindex

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/problems"
)

// A Builder makes the index of a directory. Call Add for every line of sitemap.jsonl in its order, and Finish after
// sitemap.jsonl has its final name. Call Close in any case: it removes the temporary files of an index that was not
// finished. The file appears whole or not at all.
type Builder struct {
	dir  string
	err  error    // the first; Finish returns it
	rows *os.File // becomes the index
	urls *os.File
	out  *bufio.Writer
	text *bufio.Writer

	header header
	hash   *xxhash.Digest // of sitemap.jsonl
	hosts  []run
	last   string // host of the last page
	buf    []byte
}

// run is a sequence of pages of one host.
type run struct {
	host  string
	first uint32
	count uint32
}

// maxLine is the longest line, in bytes, whose length fits into a row.
const maxLine = math.MaxUint32

// NewBuilder begins an index in temporary files of a directory. It removes the temporary files of a builder that was
// killed, so only one Builder may work in a directory.
func NewBuilder(dir string) *Builder {
	b := &Builder{dir: dir, hash: xxhash.New()}
	b.err = b.open()
	return b
}

func (b *Builder) open() error {
	left, err := filepath.Glob(filepath.Join(b.dir, datadir.IndexName+".*"+datadir.TempSuffix))
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	for _, f := range []**os.File{&b.rows, &b.urls} {
		if err == nil {
			*f, err = os.CreateTemp(b.dir, datadir.IndexName+".run-*"+datadir.TempSuffix)
		}
	}
	if err != nil {
		return err
	}
	b.out, b.text = bufio.NewWriterSize(b.rows, 256<<10), bufio.NewWriterSize(b.urls, 256<<10)
	_, err = b.rows.Seek(headerSize, io.SeekStart)
	return err
}

// Close removes temporary files. If it fails, the next Builder removes them.
func (b *Builder) Close() {
	for _, f := range []*os.File{b.rows, b.urls} {
		if f != nil {
			_ = f.Close() // it may be closed already
			_ = os.Remove(f.Name())
		}
	}
}

// Add takes the next page, and its line as it is written, with the line feed.
func (b *Builder) Add(l *page.Line, line []byte) {
	if b.err == nil {
		b.err = b.add(l, line)
	}
}

func (b *Builder) add(l *page.Line, line []byte) error {
	if b.header.rows == math.MaxUint32 || len(line) > maxLine {
		return fmt.Errorf("%s: too many pages, or too long a line", l.URL)
	}
	b.buf = appendRow(b.buf[:0], l, b.header.source.size, uint32(len(line)), b.header.urlBytes)
	if _, err := b.out.Write(b.buf); err != nil {
		return err
	}
	if _, err := b.text.WriteString(l.URL.String()); err != nil {
		return err
	}
	_, _ = b.hash.Write(line)
	if host := l.URL.Host(); host != b.last || len(b.hosts) == 0 {
		b.last = strings.Clone(host)
		b.hosts = append(b.hosts, run{host: b.last, first: uint32(b.header.rows)})
	}
	b.hosts[len(b.hosts)-1].count++
	b.header.rows++
	b.header.source.size += uint64(len(line))
	b.header.urlBytes += uint64(len(l.URL.String()))
	return nil
}

// Extra is what is known of pages when all have been seen.
type Extra struct {
	// ClickDepths are by page; NoDepth if no link leads to it. Nil if they are not known.
	ClickDepths []uint16
	// Problems are the pages with problems, in the order of sitemap.jsonl. Nil if they are not known.
	Problems iter.Seq2[problems.Mark, error]
}

// Finish completes the index of the sitemap.jsonl in the directory and gives it its name.
func (b *Builder) Finish(x Extra) error {
	if b.err == nil {
		b.err = b.finish(x)
	}
	if b.err != nil {
		return fmt.Errorf("page index: %w", b.err)
	}
	return nil
}

func (b *Builder) finish(x Extra) error {
	if err := errors.Join(b.out.Flush(), b.text.Flush()); err != nil {
		return err
	}
	info, err := os.Stat(filepath.Join(b.dir, "sitemap.jsonl"))
	if err != nil {
		return err
	}
	b.header.source.modTime, b.header.source.hash = info.ModTime(), b.hash.Sum64()
	if err := b.complete(x); err != nil {
		return err
	}
	if err := b.appendURLs(); err != nil {
		return err
	}
	if _, err := b.rows.WriteAt(b.header.encode(), 0); err != nil {
		return err
	}
	if err := errors.Join(b.rows.Sync(), b.rows.Close()); err != nil {
		return err
	}
	if err := datadir.Adopt(b.rows.Name(), filepath.Join(b.dir, datadir.IndexName)); err != nil {
		return err
	}
	return disk.SyncDir(b.dir)
}

// complete fills in what was not known when a row was written, and computes the sum of rows.
func (b *Builder) complete(x Extra) error {
	ranks := b.ranks()
	if x.ClickDepths != nil {
		b.header.known |= knowsClickDepths
	}
	next, stop := func() (problems.Mark, error, bool) { return problems.Mark{}, nil, false }, func() {}
	if x.Problems != nil {
		b.header.known |= knowsProblems
		next, stop = iter.Pull2(x.Problems)
	}
	defer stop()
	mark, err, more := next()
	sum := xxhash.New()
	buf := make([]byte, chunkRows*rowSize)
	for first := uint64(0); first < b.header.rows; first += chunkRows {
		chunk := buf[:min(chunkRows, b.header.rows-first)*rowSize]
		at := headerSize + int64(first)*rowSize
		if _, err := b.rows.ReadAt(chunk, at); err != nil {
			return err
		}
		for i := uint64(0); i < uint64(len(chunk)/rowSize); i++ {
			row, id := chunk[i*rowSize:], first+i
			binary.LittleEndian.PutUint32(row[atRank:], ranks(uint32(id)))
			if x.ClickDepths != nil {
				binary.LittleEndian.PutUint16(row[atClickDepth:], x.ClickDepths[id])
			}
			for ; err == nil && more && mark.Line <= int64(id); mark, err, more = next() {
				if mark.Line == int64(id) {
					binary.LittleEndian.PutUint64(row[atProblems:], uint64(mark.Problems))
				}
			}
			if err != nil {
				return err
			}
		}
		_, _ = sum.Write(chunk)
		if _, err := b.rows.WriteAt(chunk, at); err != nil {
			return err
		}
	}
	b.header.rowsSum = sum.Sum64()
	return nil
}

// chunkRows is how many rows are read at once.
const chunkRows = 4096

// ranks gives each page its place in the order of host names and URLs. Pages of a host follow each other by URL
// already, so only hosts are sorted. The ids must come in ascending order.
func (b *Builder) ranks() func(id uint32) uint32 {
	order := make([]int, len(b.hosts))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(strings.Compare(b.hosts[i].host, b.hosts[j].host), cmp.Compare(i, j))
	})
	starts := make([]uint32, len(b.hosts))
	at := uint32(0)
	for _, i := range order {
		starts[i] = at
		at += b.hosts[i].count
	}
	now := 0
	return func(id uint32) uint32 {
		for id >= b.hosts[now].first+b.hosts[now].count {
			now++
		}
		return starts[now] + id - b.hosts[now].first
	}
}

// appendURLs copies the URLs behind the rows.
func (b *Builder) appendURLs() error {
	if _, err := b.urls.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := b.rows.Seek(headerSize+int64(b.header.rows)*rowSize, io.SeekStart); err != nil {
		return err
	}
	sum := xxhash.New()
	n, err := io.Copy(io.MultiWriter(b.rows, sum), b.urls)
	if err == nil && uint64(n) != b.header.urlBytes {
		err = io.ErrUnexpectedEOF
	}
	b.header.urlsSum = sum.Sum64()
	return err
}
