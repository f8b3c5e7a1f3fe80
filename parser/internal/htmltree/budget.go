package htmltree

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/net/html"
)

// Limits bound what one page may cost.
type Limits struct {
	// Bytes is how much memory the nodes and attributes of the tree may take. Texts are not counted: they are
	// not longer than the page.
	Bytes int64

	// Deadline is when building ends unfinished.
	Deadline time.Time

	// Context ends building too, with its error. Nil means that nothing does.
	Context context.Context
}

// A LimitError says which of the limits a page exceeded.
type LimitError struct{ reason string }

func (e *LimitError) Error() string { return e.reason }

// What a node and an attribute cost, in bytes.
const (
	nodeSize      = int64(unsafe.Sizeof(html.Node{}))
	attributeSize = int64(unsafe.Sizeof(html.Attribute{}))
)

// clockEvery is how many tokens lie between two looks at the clock.
const clockEvery = 64

// A budget counts what a page costs.
type budget struct {
	limits Limits
	spent  int64 // bytes of nodes and attributes
	tokens int
}

// spend counts a node and its attributes.
func (b *budget) spend(attributes int) { b.spent += nodeSize + attributeSize*int64(attributes) }

// check is called once for each token.
func (b *budget) check() error {
	if b.spent > b.limits.Bytes {
		return &LimitError{fmt.Sprintf("the tree of the page needs more than %.3g MiB of memory",
			float64(b.limits.Bytes)/(1<<20))}
	}
	if b.tokens++; b.tokens%clockEvery != 1 {
		return nil
	}
	if !time.Now().Before(b.limits.Deadline) {
		return &LimitError{"building the tree of the page took too long"}
	}
	if b.limits.Context != nil {
		return b.limits.Context.Err()
	}
	return nil
}
