package weburl

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unsafe"
)

// Params says which parameters of a query are no part of a URL's identity, such as those that only tell a site where a
// visitor comes from. A crawl gives every URL that it finds to Trim or TrimBytes before it computes the key, and uses
// the same Params for as long as it goes on. A nil Params keeps all parameters.
//
// Parameters are separated by "&", or by ";" if an equals sign follows before the next separator. Order and spelling of
// those that stay do not change. If none stays, the question mark is removed too. Trimming a URL twice is the same as
// trimming it once.
type Params struct {
	ignore, only names
}

// names is a set of parameter names. Those that end in a star stand for all names with this beginning.
type names struct {
	exact    map[string]bool
	prefixes []string // sorted; none begins with another
}

// NewParams makes Params that remove the parameters named by ignore and, if only is not empty, those that only does not
// name. Upper and lower case differ. A star at the end of a name stands for any rest. The result is nil if there is
// nothing to remove.
func NewParams(ignore, only []string) (*Params, error) {
	if len(ignore)+len(only) == 0 {
		return nil, nil
	}
	p := &Params{}
	for _, list := range []struct {
		texts []string
		into  *names
	}{{ignore, &p.ignore}, {only, &p.only}} {
		list.into.exact = map[string]bool{}
		for _, text := range list.texts {
			if err := CheckParam(text); err != nil {
				return nil, err
			}
			if prefix, ok := strings.CutSuffix(text, "*"); ok {
				list.into.prefixes = append(list.into.prefixes, prefix)
			} else {
				list.into.exact[text] = true
			}
		}
		list.into.sort()
	}
	return p, nil
}

// maxParam is the longest name of a parameter that Params take, in bytes.
const maxParam = 200

// CheckParam refuses a text that cannot be the name of a parameter, or the beginning of names and a star.
func CheckParam(text string) error {
	name := strings.TrimSuffix(text, "*")
	switch {
	case text == "":
		return errors.New("the name of a parameter is empty")
	case len(text) > maxParam:
		return fmt.Errorf("%.40q… is not the name of a parameter: it has more than %d bytes", text, maxParam)
	case strings.ContainsAny(name, "*&=;?#% \t\r\n"):
		return fmt.Errorf("%q is not the name of a parameter such as sid, or the beginning of names such as utm_*",
			text)
	}
	return nil
}

// sort puts the prefixes in order, without those that begin with another one: they come right after it.
func (n *names) sort() {
	slices.Sort(n.prefixes)
	kept := n.prefixes[:0]
	for _, p := range n.prefixes {
		if len(kept) == 0 || !strings.HasPrefix(p, kept[len(kept)-1]) {
			kept = append(kept, p)
		}
	}
	n.prefixes = kept
}

// has reports whether the name is in the set. In the order of texts, everything between a prefix and a name that begins
// with it begins with that prefix too, and no other prefix does. So only the last prefix that is not after the name can
// be its beginning.
func (n *names) has(name string) bool {
	if n.exact[name] {
		return true
	}
	i, same := slices.BinarySearch(n.prefixes, name)
	return same || i > 0 && strings.HasPrefix(name, n.prefixes[i-1])
}

// removes reports whether a parameter, with its value, is removed.
func (p *Params) removes(param string) bool {
	name, _, _ := strings.Cut(param, "=")
	if name == "" {
		return false
	}
	if strings.ContainsAny(name, "%+") {
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
	}
	return p.ignore.has(name) || (len(p.only.exact) > 0 || len(p.only.prefixes) > 0) && !p.only.has(name)
}

// Trim returns u without the parameters that are no part of its identity. It returns u itself if it has none.
func (p *Params) Trim(u URL) URL {
	if p == nil || int(u.queryAt) == len(u.text) {
		return u
	}
	var buf [256]byte
	kept, changed := p.appendKept(append(buf[:0], u.text[:u.queryAt]...), u.text[u.queryAt+1:])
	if !changed {
		return u
	}
	return URL{string(kept), u.offsets}
}

// TrimBytes is Trim for the canonical text of a URL, which it changes in place. The outline stays right.
func (p *Params) TrimBytes(text []byte, at Outline) []byte {
	if p == nil || int(at.at.queryAt) == len(text) {
		return text
	}
	// What is kept moves to the front, never past what is still to be read.
	query := text[at.at.queryAt+1:]
	view := unsafe.String(unsafe.SliceData(query), len(query)) // not kept
	if kept, changed := p.appendKept(text[:at.at.queryAt], view); changed {
		return kept
	}
	return text
}

// appendKept appends the question mark and those parameters of a query that stay. If none stays, it appends nothing.
// If changed is false, all of them stay, and the result is the query as it was.
func (p *Params) appendKept(dst []byte, query string) (kept []byte, changed bool) {
	start := len(dst)
	kept = append(dst, '?')
	some, text := false, false // a parameter is kept; one that is not empty
	for at := 0; ; {
		end := nextParam(query, at)
		param := query[at:end]
		if p.removes(param) {
			changed = true
		} else {
			if some {
				kept = append(kept, query[at-1])
			}
			kept = append(kept, param...)
			some, text = true, text || param != ""
		}
		if end == len(query) {
			break
		}
		at = end + 1
	}
	if changed && !text {
		kept = kept[:start]
	}
	return kept, changed
}

// nextParam returns where the parameter ends that begins at at.
func nextParam(query string, at int) int {
	for i := at; i < len(query); i++ {
		switch query[i] {
		case '&':
			return i
		case ';':
			if end := strings.IndexAny(query[i+1:], "&;="); end >= 0 && query[i+1+end] == '=' {
				return i
			}
		}
	}
	return len(query)
}
