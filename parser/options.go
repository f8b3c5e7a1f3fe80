package parser

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/text/encoding"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// A URL is an absolute http or https URL in canonical form. The zero value is no
// URL.
type URL = weburl.URL

// ParseURL reads an absolute http or https URL.
func ParseURL(raw string) (URL, error) { return weburl.Parse(raw) }

// Options say what a Parser looks for. The zero value finds links and facts.
type Options struct {
	// Images makes images count as links of their own kind.
	Images bool

	// Assets makes the files that a page loads count as links of their own kind: images, all of a srcset among them,
	// sounds, films, embedded objects, scripts, style sheets and icons.
	Assets bool

	// NoLinkText leaves Link.Text empty for links that are not images: what the caller never
	// reads need not be gathered.
	NoLinkText bool

	// Params removes parameters from the queries of links that are not images. Nil removes none.
	Params *weburl.Params

	// StructuredLinks makes URLs in JSON-LD and in the data of Next.js pages
	// count as links.
	StructuredLinks bool

	// IDs makes Parse gather Page.IDs.
	IDs bool

	// SimHash makes Parse compute Page.SimHash.
	SimHash bool

	// Extract names what to take out of the page by CSS selector. Anything
	// here makes Parse build a tree beside its one pass, which is an order of
	// magnitude slower.
	Extract []Extractor

	// ExtractTimeout is how long the extractors may take for one page. Zero means 10 seconds.
	ExtractTimeout time.Duration

	// TreeMemory is how many bytes the trees of all pages may take at once; further pages wait. Zero means 512 MiB; it
	// is at least 128 MiB, which one tree may take.
	TreeMemory int64

	// RobotsToken is the product token for which robots directives may be
	// given, besides those for everyone. Empty means "mapwright".
	RobotsToken string

	// MaxLinks is how many links of a page are kept. Zero means 20,000.
	MaxLinks int

	// MaxLinkBytes is how much text is kept for a page's links: their
	// addresses as written and in canonical form, relations and texts. Zero
	// means 8 MiB.
	MaxLinkBytes int
}

// Defaults and limits of Options.
const (
	defaultRobotsToken  = "mapwright"
	defaultMaxLinks     = 20_000
	defaultMaxLinkBytes = 8 << 20
	maxMaxLinkBytes     = 1 << 30 // spans are 32 bits wide
)

func (o Options) withDefaults() Options {
	o.RobotsToken = cmp.Or(o.RobotsToken, defaultRobotsToken)
	o.MaxLinks = cmp.Or(o.MaxLinks, defaultMaxLinks)
	o.MaxLinkBytes = cmp.Or(o.MaxLinkBytes, defaultMaxLinkBytes)
	o.ExtractTimeout = cmp.Or(o.ExtractTimeout, defaultExtractTimeout)
	o.TreeMemory = cmp.Or(o.TreeMemory, defaultTreeMemory)
	return o
}

// Validate names everything that is wrong with o, joined into one error. Zeros that mean a default are right.
func (o Options) Validate() error {
	var errs []error
	if o.MaxLinks < 0 {
		errs = append(errs, fmt.Errorf("option MaxLinks is %d, must not be negative", o.MaxLinks))
	}
	if o.MaxLinkBytes < 0 || o.MaxLinkBytes > maxMaxLinkBytes {
		errs = append(errs, fmt.Errorf("option MaxLinkBytes is %d, must be from 0 to %d", o.MaxLinkBytes,
			maxMaxLinkBytes))
	}
	if o.ExtractTimeout < 0 {
		errs = append(errs, fmt.Errorf("option ExtractTimeout is %v, must not be negative", o.ExtractTimeout))
	}
	if o.TreeMemory != 0 && o.TreeMemory < maxTree {
		errs = append(errs, fmt.Errorf("option TreeMemory is %d, must be 0 or at least %d", o.TreeMemory, maxTree))
	}
	names, tests := map[string]bool{}, 0
	for i, e := range o.Extract {
		tests += e.tests
		switch {
		case e.selector == nil:
			errs = append(errs, fmt.Errorf("extractor %d was not made by ParseExtractor", i))
		case names[e.name]:
			errs = append(errs, fmt.Errorf("two extractors are named %q", e.name))
		}
		names[e.name] = true
	}
	if len(o.Extract) > maxExtractors {
		errs = append(errs, fmt.Errorf("there are %d extractors, at most %d are allowed", len(o.Extract),
			maxExtractors))
	}
	if tests > maxTests {
		errs = append(errs, fmt.Errorf("the extractors have %d simple selectors, such as .price or :first-child, at "+
			"most %d are allowed", tests, maxTests))
	}
	return errors.Join(errs...)
}

// Input is a page as it was fetched.
type Input struct {
	// URL is the address of the page. Without it, only absolute links
	// resolve.
	URL URL

	// Body is the page in UTF-8, whatever it was sent in. At most 1 GiB of it is
	// read.
	Body []byte

	// Header is the header of the response. It may be nil.
	Header http.Header

	// Encoding is the encoding that the page was sent in. The queries of its links are encoded in it, as in browsers.
	// Nil means UTF-8.
	Encoding encoding.Encoding

	// Context ends the work of the extractors, which is the only work that takes
	// long. Parse then returns the cause. Nil means that nothing ends it.
	Context context.Context

	// Memory, if it is not nil, is asked before the texts of a page's links take more than 256 KiB, and again each time
	// that they would exceed what was granted. It is also asked for the values of extractors if they have more than
	// 256 KiB. It may wait until there is memory. After an error Parse keeps no more links, and returns the error.
	Memory interface {
		Reserve(ctx context.Context, bytes int64) error
	}
}
