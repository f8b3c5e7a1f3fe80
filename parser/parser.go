package parser

import (
	"context"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sync/semaphore"
)

// A Parser finds links and facts in pages. It may be used by any number of goroutines
// at once, which share the memory for the trees of Options.Extract.
type Parser struct {
	opts  Options
	token string // opts.RobotsToken in lower case
	names *names
	trees *semaphore.Weighted // bytes of memory for the trees of all pages
}

// New makes a Parser. It fails if the options are not valid, naming every fault.
func New(o Options) (*Parser, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("parser options: %w", err)
	}
	o = o.withDefaults()
	token := make([]byte, len(o.RobotsToken))
	for i := range token {
		token[i] = lower(o.RobotsToken[i])
	}
	return &Parser{opts: o, token: string(token), names: newNames(o.IDs),
		trees: semaphore.NewWeighted(o.TreeMemory)}, nil
}

// maxBody bounds what is read, because spans are 32 bits wide.
const maxBody = 1 << 30

// Parse reads a page into pg, replacing what it held. An error means that the
// extractors of Options could not be run: the page is nested too deeply for a tree,
// or needs too much memory or time for it. Links and facts are there nevertheless. An error of Input.Memory is returned
// too.
func (p *Parser) Parse(pg *Page, in Input) error {
	if len(in.Body) > maxBody {
		in.Body = in.Body[:maxBody]
	}
	if in.Context == nil {
		in.Context = context.Background()
	}
	w := &pg.walker
	w.begin(p, in)
	w.headers(in.Header)
	w.walk()
	w.finish(pg)
	pg.ContentHash = xxhash.Sum64(in.Body)
	pg.Extracted = pg.Extracted[:0]
	if w.refused != nil {
		return w.refused
	}
	if len(p.opts.Extract) == 0 {
		return nil
	}
	size, err := p.extract(in.Context, pg, in.Body)
	if err != nil {
		return fmt.Errorf("extract: %w", err)
	}
	if in.Memory != nil && size > freeMemory {
		return in.Memory.Reserve(in.Context, int64(size))
	}
	return nil
}
