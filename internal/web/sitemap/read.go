package sitemap

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// ErrNotSitemap means that the file is something else, such as an HTML page that stands where a sitemap was expected.
var ErrNotSitemap = errors.New("not a sitemap")

// maxLayers is how often a file may be compressed in itself. Twice happens, when a server compresses a .gz file again.
const maxLayers = 3

// What unzipping may give: maxUnzipped bytes, or more if they are no more than maxRatio for each that came. Sitemaps
// unzip to a hundred times at most. A small file that unzips to very much would keep its reader busy long after its
// last byte has come.
const (
	maxUnzipped = 32 << 20
	maxRatio    = 256
)

// Format is the kind of a file that was read.
type Format string

// The formats.
const (
	FormatURLSet Format = "urlset"
	FormatIndex  Format = "index"
	FormatText   Format = "text"
	FormatRSS    Format = "rss"
	FormatAtom   Format = "atom"
)

// A source is a reader that has undone compression itself. Read asks it how much came, compressed as it was, and
// whether it may go on.
type source interface {
	WireBytes() int64
	Ended() error
}

// Read calls fn for each entry of r, in order. It stops at the first error of fn, and returns it. When the file breaks
// off or is broken, the entries before the break have been delivered, and the error says what was wrong. Count, unless
// it is nil, is called with the number of bytes that have come, as they are without compression; reading stops at its
// first error too.
func Read(r io.Reader, count func(bytes int) error, fn func(*Entry) error) (Format, error) {
	in, err := open(r, count)
	if err != nil {
		return "", err
	}
	first, err := in.Peek(1)
	if errors.Is(err, io.EOF) {
		return "", fmt.Errorf("%w: the file is empty", ErrNotSitemap)
	}
	if err != nil {
		return "", err
	}
	if first[0] == '<' {
		return readXML(in, fn)
	}
	return FormatText, readText(in, fn)
}

// open undoes compression, byte order marks and leading white space.
func open(r io.Reader, count func(bytes int) error) (*bufio.Reader, error) {
	file := &countedReader{r: r}
	in := bufio.NewReaderSize(file, 32<<10)
	for layer := 0; ; layer++ {
		magic, err := in.Peek(2)
		if err != nil || magic[0] != 0x1f || magic[1] != 0x8b {
			break
		}
		if layer == maxLayers {
			return nil, fmt.Errorf("%w: compressed more than %d times", ErrNotSitemap, maxLayers)
		}
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("unzip: %w", err)
		}
		in = bufio.NewReaderSize(&unzippedReader{r: unzipped, file: file}, 32<<10)
	}
	if enc := wideEncoding(in); enc != nil {
		in = bufio.NewReaderSize(transform.NewReader(in, enc.NewDecoder()), 32<<10)
	}
	if count != nil {
		in = bufio.NewReaderSize(&meteredReader{r: in, count: count}, 32<<10)
	}
	for {
		// programs that join files write several
		if mark, _ := in.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
			_, _ = in.Discard(len(byteOrderMark)) // they have been peeked, so they are there
			continue
		}
		c, err := in.ReadByte()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return in, nil
			}
			return nil, err
		}
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return in, in.UnreadByte()
		}
	}
}

// byteOrderMark is that of UTF-8.
const byteOrderMark = "\xef\xbb\xbf"

// wideEncoding is the encoding of a file in UTF-16, by its byte order mark or because it begins with < in two bytes;
// else nil.
func wideEncoding(in *bufio.Reader) encoding.Encoding {
	switch begin, _ := in.Peek(2); string(begin) {
	case "\xff\xfe", "<\x00":
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	case "\xfe\xff", "\x00<":
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM)
	}
	return nil
}

// countedReader is the file as it came.
type countedReader struct {
	r io.Reader
	n int64
}

// came is how many bytes have come so far. The error is why there must be no more.
func (c *countedReader) came() (int64, error) {
	if s, ok := c.r.(source); ok {
		return s.WireBytes(), s.Ended()
	}
	return c.n, nil
}

func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// meteredReader says how much is read.
type meteredReader struct {
	r     io.Reader
	count func(bytes int) error
}

func (m *meteredReader) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if why := m.count(n); why != nil {
		return 0, why
	}
	return n, err
}

// unzippedReader fails when far more comes out of a file than came.
type unzippedReader struct {
	r    io.Reader
	file *countedReader
	n    int64
}

func (u *unzippedReader) Read(p []byte) (int, error) {
	came, err := u.file.came()
	if err != nil {
		return 0, err
	}
	if u.n > max(maxUnzipped, maxRatio*came) {
		return 0, fmt.Errorf("%w: it unzips to more than %d times its size", ErrNotSitemap, maxRatio)
	}
	n, err := u.r.Read(p)
	u.n += int64(n)
	return n, err
}

// readText takes each line that looks like a URL, and skips the others. A file without any such line is no sitemap.
func readText(in *bufio.Reader, fn func(*Entry) error) error {
	found := false
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			// Longer than any URL may be: not ours.
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = in.ReadSlice('\n')
			}
			line = nil
		}
		if loc := bytes.TrimSpace(line); hasScheme(loc) {
			found = true
			cut := len(loc) > maxHeld
			if err := fn(&Entry{Loc: string(loc[:min(len(loc), maxHeld)]), Cut: cut, Priority: -1}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			if !found {
				return fmt.Errorf("%w: it is no XML, and no line of it is a URL", ErrNotSitemap)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("read text sitemap: %w", err)
		}
	}
}

func hasScheme(line []byte) bool {
	if len(line) > len("https://") {
		line = line[:len("https://")]
	}
	line = bytes.ToLower(line)
	return bytes.HasPrefix(line, []byte("http://")) || bytes.Equal(line, []byte("https://"))
}
