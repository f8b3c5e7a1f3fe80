package seeding

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// commonCrawl finds the pages of a domain in the newest index of Common Crawl.
type commonCrawl struct{ client *client }

// pageBatch is how many URLs are handed over at once.
const pageBatch = 256

// maxLine is the longest row of an index that is read; longer ones are skipped.
const maxLine = 1 << 20

// newCommonCrawl asks the index server at base, such as https://index.commoncrawl.org, and no other.
func newCommonCrawl(base string, f fetch.Fetcher) (*commonCrawl, error) {
	c, err := newClient(base, f)
	return &commonCrawl{c}, err
}

// URLs hands over every URL of the domain that answered with a success when the newest index was made.
func (s *commonCrawl) URLs(ctx context.Context, domain string, sink sinkFunc) (summary, error) {
	var sum summary
	api, err := s.newest(ctx)
	if err != nil {
		return sum, fmt.Errorf("ask for the newest index: %w", err)
	}
	query := api + "?url=" + url.QueryEscape(domain) + "&matchType=domain&output=json"
	pages, err := s.pages(ctx, query+"&showNumPages=true")
	if err != nil {
		return sum, fmt.Errorf("ask how much there is of %s: %w", domain, err)
	}
	for n := range pages {
		u, err := weburl.Parse(query + "&fl=url,status&page=" + strconv.Itoa(n))
		if err != nil {
			return sum, err
		}
		// A page that is read again counts once.
		before := sum
		err = s.client.get(ctx, u, func(r io.Reader) error {
			sum = before
			return readCaptures(ctx, r, domain, sink, &sum)
		})
		if err != nil && !isAbsent(err) {
			return sum, fmt.Errorf("ask for page %d of %d of %s: %w", n+1, pages, domain, err)
		}
	}
	return sum, nil
}

// isAbsent reports whether an error is how an index says that it has nothing.
func isAbsent(err error) bool {
	status, ok := errors.AsType[*statusError](err)
	return ok && status.Status == http.StatusNotFound
}

// maxIndexes bounds the list of indexes in memory; there are a little over a hundred.
const maxIndexes = 4 << 20

// newest returns the address of the newest index. The list names the public server; if base is another server, that one
// is asked instead.
func (s *commonCrawl) newest(ctx context.Context) (string, error) {
	at, err := s.client.under("/collinfo.json")
	if err != nil {
		return "", err
	}
	type index struct {
		ID  string `json:"id"`
		API string `json:"cdx-api"`
		To  string `json:"to"` // end of the crawl; older servers do not say
	}
	var list []index
	err = s.client.get(ctx, at, func(r io.Reader) error {
		if err := json.NewDecoder(io.LimitReader(r, maxIndexes)).Decode(&list); err != nil {
			return fmt.Errorf("%w: %w", errShape, err)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", fmt.Errorf("%w: it lists no index", errShape)
	}
	best := slices.MaxFunc(list, func(a, b index) int {
		return cmp.Or(cmp.Compare(a.To, b.To),
			cmp.Compare(a.ID, b.ID))
	})
	named, err := s.client.base.Resolve(best.API)
	if err == nil && best.API != "" && named.Origin() == s.client.base.Origin() {
		return named.Origin() + named.Path(), nil
	}
	name := best.ID + "-index"
	if err == nil && best.API != "" {
		name = path.Base(named.Path())
	}
	u, err := s.client.under("/" + name)
	return u.String(), err
}

// pages is how many pages an index has of a domain.
func (s *commonCrawl) pages(ctx context.Context, query string) (int, error) {
	u, err := weburl.Parse(query)
	if err != nil {
		return 0, err
	}
	var answer struct {
		Pages int `json:"pages"`
	}
	err = s.client.get(ctx, u, func(r io.Reader) error {
		text, err := io.ReadAll(io.LimitReader(r, 1<<16))
		if err != nil {
			return err
		}
		// servers of the same kind answer with the number alone
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			answer.Pages = n
			return nil
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			return fmt.Errorf("%w: %w", errShape, err)
		}
		return nil
	})
	if isAbsent(err) {
		return 0, nil
	}
	return answer.Pages, err
}

// readCaptures reads one page of an index, a row of JSON per line, and hands over its URLs.
func readCaptures(ctx context.Context, r io.Reader, domain string, sink sinkFunc, sum *summary) error {
	in := bufio.NewReaderSize(r, maxLine)
	batch := make([]weburl.URL, 0, pageBatch)
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		if err := sink(ctx, batch); err != nil {
			return &sinkError{err}
		}
		sum.Found += int64(len(batch))
		batch = batch[:0]
		return nil
	}
	last := ""
	for {
		line, err := in.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) {
			line = nil
			_, err = in.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return errors.Join(err, flush())
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			sum.Rows++
			u, rerr := capture(line)
			if rerr != nil {
				return errors.Join(rerr, flush())
			}
			// The captures of one URL stand together.
			if !u.IsZero() && u.String() != last && within(u.Host(), domain) {
				last = u.String()
				if batch = append(batch, u); len(batch) == pageBatch {
					if err := flush(); err != nil {
						return err
					}
				}
			}
		}
		if err != nil {
			return flush()
		}
	}
}

// capture returns the URL of a row. It is zero if the URL is not to be crawled: it failed when it was captured, or is a
// robots.txt.
func capture(line []byte) (weburl.URL, error) {
	var row struct {
		URL    string          `json:"url"`
		Status json.RawMessage `json:"status"` // a text; a number would do
	}
	if err := json.Unmarshal(line, &row); err != nil {
		return weburl.URL{}, fmt.Errorf("%w: %w", errShape, err)
	}
	if status := strings.Trim(string(row.Status), `"`); status != "" && status != "-" && status != "null" &&
		!strings.HasPrefix(status, "2") {
		return weburl.URL{}, nil
	}
	u, err := weburl.Parse(row.URL)
	if err != nil || u.Path() == "/robots.txt" {
		return weburl.URL{}, nil
	}
	return u, nil
}
