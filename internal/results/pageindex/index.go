package pageindex

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/results/problems"
)

// Index is an open index with its sitemap.jsonl. Both stay as they are when an export replaces the files. It is safe
// for concurrent use.
type Index struct {
	header header
	file   *os.File
	lines  *os.File // sitemap.jsonl
}

// errStale means that the index is of another sitemap.jsonl.
var errStale = errors.New("the page index is not of this sitemap.jsonl")

// isMissing reports whether there is no index that can be used.
func isMissing(err error) bool {
	return errors.Is(err, errStale) || errors.Is(err, errDamaged) || errors.Is(err, fs.ErrNotExist)
}

// Open opens the index of a directory.
func Open(dir string) (x *Index, err error) {
	x = &Index{}
	defer func() {
		if err != nil {
			err = fmt.Errorf("open the page index of %s: %w", dir, errors.Join(err, x.Close()))
			x = nil
		}
	}()
	if x.lines, err = os.Open(filepath.Join(dir, "sitemap.jsonl")); err != nil {
		return x, err
	}
	if x.file, err = os.Open(filepath.Join(dir, datadir.IndexName)); err != nil {
		return x, err
	}
	head := make([]byte, headerSize)
	if _, err := io.ReadFull(x.file, head); err != nil {
		return x, errDamaged
	}
	if x.header, err = decodeHeader(head); err != nil {
		return x, err
	}
	if err := x.checkSource(); err != nil {
		return x, err
	}
	return x, x.verify()
}

// checkSource compares the index with sitemap.jsonl. If its time differs, its content decides.
func (x *Index) checkSource() error {
	info, err := x.lines.Stat()
	switch {
	case err != nil:
		return err
	case uint64(info.Size()) != x.header.source.size:
		return errStale
	case info.ModTime().Equal(x.header.source.modTime):
		return nil
	}
	sum := xxhash.New()
	if _, err := io.Copy(sum, io.NewSectionReader(x.lines, 0, info.Size())); err != nil {
		return err
	}
	if sum.Sum64() != x.header.source.hash {
		return errStale
	}
	return nil
}

// verify compares the sums of rows and URLs.
func (x *Index) verify() error {
	info, err := x.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != x.header.size() {
		return errDamaged
	}
	at := int64(headerSize)
	for _, part := range []struct {
		size int64
		sum  uint64
	}{{int64(x.header.rows) * rowSize, x.header.rowsSum}, {int64(x.header.urlBytes), x.header.urlsSum}} {
		sum := xxhash.New()
		if _, err := io.CopyBuffer(sum, io.NewSectionReader(x.file, at, part.size), make([]byte, 256<<10)); err != nil {
			return err
		}
		if sum.Sum64() != part.sum {
			return errDamaged
		}
		at += part.size
	}
	return nil
}

// Close closes the files.
func (x *Index) Close() error {
	var errs []error
	for _, f := range []*os.File{x.file, x.lines} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// Len is how many pages there are.
func (x *Index) Len() int64 { return int64(x.header.rows) }

// KnowsClickDepths and KnowsProblems say whether rows have them.
func (x *Index) KnowsClickDepths() bool { return x.header.known&knowsClickDepths != 0 }
func (x *Index) KnowsProblems() bool    { return x.header.known&knowsProblems != 0 }

// Hit is a page that was found.
type Hit struct {
	URL        string
	ClickDepth int32 // -1 if not known
	Problems   problems.Set

	offset int64  // of its line in sitemap.jsonl
	length uint32 // of that line, with the line feed
}

// Line reads the page's line of sitemap.jsonl, with the line feed.
func (x *Index) Line(h *Hit) ([]byte, error) {
	line := make([]byte, h.length)
	if _, err := x.lines.ReadAt(line, h.offset); err != nil {
		return nil, fmt.Errorf("read sitemap.jsonl: %w", err)
	}
	return line, nil
}

// Find finds the page of a URL.
func (x *Index) Find(ctx context.Context, url string) (hit Hit, found bool, err error) {
	err = x.Scan(ctx, &Filter{URL: url}, func(h *Hit) bool {
		hit, found = *h, true
		return false
	})
	return hit, found, err
}

// Scan calls yield with each page that the filter lets pass, in the order of sitemap.jsonl, until it returns false. The
// hit is valid during the call.
func (x *Index) Scan(ctx context.Context, f *Filter, yield func(*Hit) bool) error {
	match, err := f.compile(x)
	if err != nil {
		return err
	}
	return x.each(ctx, match, func(_ uint32, row stored, url []byte) bool { return yield(new(row.hit(url))) }, true)
}

// each calls yield with each row that matches. URLs are read if the filter or yield needs them.
func (x *Index) each(ctx context.Context, match *matcher, yield func(id uint32, row stored, url []byte) bool,
	needURL bool) error {
	// One extra row tells where the last URL of the chunk ends.
	rows := make([]byte, 0, (chunkRows+1)*rowSize)
	var urls, folded []byte
	for first := uint64(0); first < x.header.rows; first += chunkRows {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(chunkRows, x.header.rows-first)
		more := min(chunkRows+1, x.header.rows-first)
		rows = rows[:more*rowSize]
		if _, err := x.file.ReadAt(rows, headerSize+int64(first)*rowSize); err != nil {
			return fmt.Errorf("read the page index: %w", err)
		}
		begin, end := urlAt(rows, 0), x.header.urlBytes
		if more > n {
			end = urlAt(rows, n)
		}
		if needURL || match.needsURL() {
			if uint64(cap(urls)) < end-begin {
				urls = make([]byte, end-begin)
			}
			urls = urls[:end-begin]
			if _, err := x.file.ReadAt(urls, headerSize+int64(x.header.rows)*rowSize+int64(begin)); err != nil {
				return fmt.Errorf("read the page index: %w", err)
			}
			if match.contains != nil {
				folded = append(folded[:0], urls...)
				fold(folded)
				if !bytes.Contains(folded, match.contains) {
					continue // no URL of all these has it
				}
			}
		}
		for i := uint64(0); i < n; i++ {
			row := stored(rows[i*rowSize : (i+1)*rowSize])
			if !match.row(row) {
				continue
			}
			from, to := urlAt(rows, i)-begin, end-begin
			if i+1 < more {
				to = urlAt(rows, i+1) - begin
			}
			var url []byte
			if urls != nil {
				url = urls[from:to]
				if match.contains != nil && !bytes.Contains(folded[from:to], match.contains) || !match.url(url) {
					continue
				}
			}
			if !yield(uint32(first+i), row, url) {
				return nil
			}
		}
	}
	return nil
}

// urlAt is where the URL of the i-th of some rows begins.
func urlAt(rows []byte, i uint64) uint64 { return binary.LittleEndian.Uint64(rows[i*rowSize+atURL:]) }

// fold turns ASCII letters into lower case, eight bytes at a time. Byte by byte, a search of a million URLs took a
// quarter longer (BenchmarkQuery/contains).
func fold(text []byte) {
	const ones = 0x0101010101010101
	for ; len(text) >= 8; text = text[8:] {
		word := binary.LittleEndian.Uint64(text)
		low := word &^ (0x80 * ones)
		// In the first sum the highest bit of a byte is set from 'A' on, in the second after 'Z'.
		large := (low + (0x80-'A')*ones) ^ (low + (0x7f-'Z')*ones)
		binary.LittleEndian.PutUint64(text, word|(large&^word&(0x80*ones))>>2)
	}
	for i, c := range text {
		if c-'A' < 26 {
			text[i] = c + 'a' - 'A'
		}
	}
}
