package page

import (
	"slices"
	"strings"

	"github.com/mapwright/mapwright/parser"
)

// Fragment is the fragment of an address as a page has it, if it must name an element of the target; else it is empty.
// "" and "top" are the top of every page. What begins with / or ! is a route of a script, and :~: begins what is a text
// to look for.
func Fragment(href string) string {
	_, name, _ := strings.Cut(href, "#")
	name = strings.TrimRight(name, " \t\r\n\f")
	name = strings.NewReplacer("\t", "", "\r", "", "\n", "").Replace(name)
	name, _, _ = strings.Cut(name, ":~:")
	if name == "" || strings.EqualFold(name, "top") || name[0] == '/' || name[0] == '!' {
		return ""
	}
	return name
}

// IDs are hashes of the names in a page to which fragments lead, in order. Nil means that they are not known.
type IDs []uint32

// NewIDs reads what Facts.IDs has.
func NewIDs(stored []uint64) IDs {
	if len(stored) == 0 {
		return nil
	}
	ids := make(IDs, 0, len(stored)-1)
	last := uint32(0)
	for _, more := range stored[1:] {
		last += uint32(more)
		ids = append(ids, last)
	}
	return ids
}

// Lacks reports whether a fragment is known to lead to nothing. It is compared as it is written and, like browsers do,
// without percent-encoding.
func (ids IDs) Lacks(fragment string) bool {
	return ids != nil && !ids.has(fragment) && !ids.has(unescaped(fragment))
}

func (ids IDs) has(name string) bool {
	_, ok := slices.BinarySearch(ids, parser.HashID([]byte(name)))
	return ok
}

// unescaped replaces percent-encoded bytes, and leaves a % alone that begins none.
func unescaped(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			high, low := strings.IndexByte(hexDigits, text[i+1]|0x20), strings.IndexByte(hexDigits, text[i+2]|0x20)
			if high >= 0 && low >= 0 {
				out = append(out, byte(high<<4|low))
				i += 2
				continue
			}
		}
		out = append(out, text[i])
	}
	return string(out)
}
