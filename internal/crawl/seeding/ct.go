package seeding

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// Names tells which host names exist.
type Names interface {
	// Scheme is how to reach a host: https, http where nothing else leads there, or empty if the name does not exist.
	// An error means that it could not be found out.
	Scheme(ctx context.Context, host string) (string, error)
}

// ctLog finds host names in certificate transparency logs, through a search of the form of crt.sh.
type ctLog struct {
	client *client
	names  Names
}

// maxNames bounds what one answer may take of memory.
const maxNames = 500_000

// maxRow is the largest entry of an answer: a certificate may hold many names.
const maxRow = 4 << 20

// newCTLog asks the search at base, such as https://crt.sh, and hands over only names that exist.
func newCTLog(base string, names Names, f fetch.Fetcher) (*ctLog, error) {
	c, err := newClient(base, f)
	return &ctLog{c, names}, err
}

// URLs hands over the root of each host below the domain that ever had a certificate and still exists.
func (s *ctLog) URLs(ctx context.Context, domain string, sink sinkFunc) (summary, error) {
	var sum summary
	u, err := s.client.under("/?q=" + url.QueryEscape("%."+domain) + "&output=json")
	if err != nil {
		return sum, err
	}
	found := &nameSet{domain: domain, seen: map[string]bool{}}
	err = s.client.get(ctx, u, func(r io.Reader) error {
		sum.Rows = 0
		return readRows(r, func(names ...string) error {
			sum.Rows++
			for _, n := range names {
				if err := found.add(n); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		// The names that came before the search broke off are used.
		err = fmt.Errorf("ask for the names of %s: %w", domain, err)
	}
	if ctx.Err() != nil {
		return sum, ctx.Err()
	}
	if serr := s.handOver(ctx, found.list, sink, &sum); serr != nil {
		return sum, serr
	}
	if err == nil && sum.Failed > 0 {
		err = fmt.Errorf("DNS gave no answer for %d of %d names of %s", sum.Failed, len(found.list), domain)
	}
	return sum, err
}

// readRows reads an array of certificates and gives the names of each.
func readRows(r io.Reader, row func(names ...string) error) error {
	metered := &meteredReader{r: r, most: maxRow}
	dec := json.NewDecoder(metered)
	open, err := dec.Token()
	if err != nil {
		return fmt.Errorf("%w: %w", errShape, err)
	}
	if open != json.Delim('[') {
		return fmt.Errorf("%w: it begins with %v", errShape, open)
	}
	for dec.More() {
		var c struct {
			CommonName string `json:"common_name"`
			NameValue  string `json:"name_value"` // one name per line
		}
		metered.used = 0
		if err := dec.Decode(&c); err != nil {
			return fmt.Errorf("%w: %w", errShape, err)
		}
		if err := row(append(strings.Split(c.NameValue, "\n"), c.CommonName)...); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("%w: %w", errShape, err)
	}
	return nil
}

// A nameSet keeps the different host names of a domain in the order in which they came.
type nameSet struct {
	domain string
	seen   map[string]bool
	list   []weburl.URL
}

// add takes a name as a certificate has it: in any case, perhaps a wildcard, perhaps no host at all.
func (s *nameSet) add(name string) error {
	name = strings.ToLower(strings.TrimSuffix(strings.TrimSpace(name), "."))
	for strings.HasPrefix(name, "*.") {
		name = name[len("*."):]
	}
	if !within(name, s.domain) || s.seen[name] || strings.ContainsAny(name, "*@:/?#[]\\ ") {
		return nil
	}
	if len(s.list) == maxNames {
		return &sinkError{fmt.Errorf("more than %d names", maxNames)}
	}
	s.seen[name] = true
	u, err := weburl.Parse("https://" + name + "/")
	if err == nil && within(u.Host(), s.domain) {
		s.list = append(s.list, u)
	}
	return nil
}

// How many names are checked in one batch, and how many lookups are made at once.
const (
	nameBatch   = 256
	nameLookups = 16
)

// handOver asks which names exist, and gives those to the sink.
func (s *ctLog) handOver(ctx context.Context, list []weburl.URL, sink sinkFunc, sum *summary) error {
	for part := range slices.Chunk(list, nameBatch) {
		checked := s.check(ctx, part, sum)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if sum.Failed >= nameBatch && sum.Found+sum.Absent == 0 {
			return fmt.Errorf("DNS gave no answer for %d names", sum.Failed)
		}
		if len(checked) > 0 {
			if err := sink(ctx, checked); err != nil {
				return err
			}
		}
		sum.Found += int64(len(checked))
	}
	return nil
}

// check returns those that exist, in order.
func (s *ctLog) check(ctx context.Context, list []weburl.URL, sum *summary) []weburl.URL {
	reached, errs := make([]weburl.URL, len(list)), make([]error, len(list))
	var group errgroup.Group
	group.SetLimit(nameLookups)
	for i, u := range list {
		group.Go(func() error {
			reached[i], errs[i] = s.reach(ctx, u)
			return nil // the other names are looked up nevertheless
		})
	}
	_ = group.Wait()
	var exist []weburl.URL
	for i, u := range reached {
		switch {
		case errs[i] != nil:
			sum.Failed++
		case u.IsZero():
			sum.Absent++
		default:
			exist = append(exist, u)
		}
	}
	return exist
}

// reach is the address by which a name can be asked, or zero if it does not exist.
func (s *ctLog) reach(ctx context.Context, u weburl.URL) (weburl.URL, error) {
	scheme, err := s.names.Scheme(ctx, u.Host())
	if err != nil || scheme == "" {
		return weburl.URL{}, err
	}
	return weburl.Parse(scheme + u.String()[len("https"):])
}
