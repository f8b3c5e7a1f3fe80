package parser

import (
	"bytes"
	"errors"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// A linkRecord is a Link whose texts still lie in the arena.
type linkRecord struct {
	href, url, rel, text span
	outline              weburl.Outline // of url
	kind                 Kind
	fault                Fault
	noFollow             bool
}

// addLink records a link. It returns its index, or -1 if the page has too many.
func (w *walker) addLink(kind Kind, href, rel []byte) int {
	if kind < KindImage {
		w.linkCount++
	}
	if len(w.links) >= w.parser.opts.MaxLinks || w.full {
		w.truncated = true
		return -1
	}
	before := len(w.arena)
	r := linkRecord{kind: kind}
	if len(href) > maxHref {
		r.fault = FaultTooLong
		href = cutText(href, maxHref)
	}
	r.href = w.keep(href)
	if r.fault == FaultNone {
		w.resolve(&r, href)
	}
	if len(rel) > 0 {
		r.rel = w.keepRel(rel)
		r.noFollow = hasToken(rel, "nofollow")
	}
	if !w.charge(before) {
		w.full = true
		return -1
	}
	w.links = append(w.links, r)
	return len(w.links) - 1
}

// setText gives the i-th link its text.
func (w *walker) setText(i int, text []byte) {
	before := len(w.arena)
	kept := w.keep(text)
	if w.charge(before) {
		w.links[i].text = kept
	}
}

// charge counts as link text what was added to the arena since it had length before. If that exceeds MaxLinkBytes, or
// there is no memory for it, it takes the text out of the arena and reports false.
func (w *walker) charge(before int) bool {
	n := len(w.arena) - before
	if w.linkBytes+n > w.parser.opts.MaxLinkBytes || !w.grow(w.linkBytes+n+(len(w.links)+1)*perLink) {
		w.arena = w.arena[:before]
		w.truncated = true
		return false
	}
	w.linkBytes += n
	return true
}

const (
	// freeMemory is how much the links of a page may take without asking Input.Memory. Few pages have more.
	freeMemory = 256 << 10
	// linkCopies is how often the text of links is in memory, measured: in the arena and in the string of the result,
	// and until they are recorded in what a crawl makes of the links.
	linkCopies = 5
	// perLink is what each of these needs of a link besides its text, in bytes.
	perLink = 128
)

// grow reports whether links may take size bytes.
func (w *walker) grow(size int) bool {
	most := w.parser.opts.MaxLinkBytes + w.parser.opts.MaxLinks*perLink
	for w.granted < size {
		if w.refused != nil {
			return false
		}
		more := min(w.granted, most-w.granted)
		if w.refused = w.in.Memory.Reserve(w.in.Context, int64(linkCopies*more)); w.refused != nil {
			return false
		}
		w.granted += more
	}
	return true
}

// resolve finds the link's canonical URL from its href.
func (w *walker) resolve(r *linkRecord, href []byte) {
	params, base := w.parser.opts.Params, w.trimmedBase
	switch {
	case r.kind >= KindImage:
		params, base = nil, w.base
	case r.kind == KindHeader:
		base = w.in.URL
	}
	if w.in.Encoding != nil {
		href = w.encodeQuery(href)
	}
	before := len(w.arena)
	out, outline, err := base.AppendResolve(w.arena, href)
	switch {
	case err == nil:
		if params != nil && string(out[before:]) != w.trimmedBase.String() {
			out = out[:before+len(params.TrimBytes(out[before:], outline))]
		}
		w.arena, r.fault, r.outline = out, FaultNone, outline
	case errors.Is(err, weburl.ErrScheme):
		r.url, r.fault = span{}, FaultScheme
		return
	default:
		r.url, r.fault = span{}, FaultInvalid
		return
	}
	if bytes.Equal(out[before:], r.href.of(out)) {
		w.arena, r.url = out[:before], r.href
		return
	}
	r.url = span{uint32(before), uint32(len(out))}
}

// setBase sets what links resolve against to href, of the page's first base element. It resolves the links before that
// element again.
func (w *walker) setBase(href []byte) {
	w.baseSet = true
	if len(href) > maxHref {
		return
	}
	base, err := w.in.URL.Resolve(string(href))
	switch {
	case err == nil:
		w.base, w.trimmedBase = base, w.parser.opts.Params.Trim(base)
	case errors.Is(err, weburl.ErrScheme) && !hasScheme(href, "data") && !hasScheme(href, "javascript"):
		w.base, w.trimmedBase = URL{}, URL{} // only absolute links have a meaning now
	default:
		return
	}
	for i := range w.links {
		r := &w.links[i]
		if r.kind == KindHeader || r.fault == FaultTooLong {
			continue
		}
		before := len(w.arena)
		if !w.full {
			w.resolve(r, r.href.of(w.arena))
			w.full = !w.charge(before) || w.full
		}
		if w.full {
			w.arena, w.truncated = w.arena[:before], true
			r.url, r.fault = span{}, FaultTooLong
		}
	}
}

// hasScheme reports whether the URL begins with this scheme.
func hasScheme(url []byte, scheme string) bool {
	url = trimSpace(url)
	return hasPrefixFold(url, scheme) && len(url) > len(scheme) && url[len(scheme)] == ':'
}

// keep copies b into the arena.
func (w *walker) keep(b []byte) span {
	start := len(w.arena)
	w.arena = append(w.arena, b...)
	return span{uint32(start), uint32(len(w.arena))}
}

// keepRel copies a relation into the arena, in lower case and collapsed.
func (w *walker) keepRel(rel []byte) span {
	start := len(w.arena)
	for token, rest := cutToken(rel); len(token) > 0; token, rest = cutToken(rest) {
		if len(w.arena)-start+1+len(token) > maxRel {
			break
		}
		if hasControl(token) {
			continue
		}
		if len(w.arena) > start {
			w.arena = append(w.arena, ' ')
		}
		for _, c := range token {
			w.arena = append(w.arena, lower(c))
		}
	}
	return span{uint32(start), uint32(len(w.arena))}
}

// link fills in the Link.
func (r *linkRecord) link(l *Link, text string) {
	l.Href, l.Rel, l.Text = r.href.in(text), r.rel.in(text), r.text.in(text)
	l.Kind, l.Fault, l.NoFollow = r.kind, r.fault, r.noFollow
	if r.url.end > r.url.start {
		l.URL = r.outline.URL(r.url.in(text))
	} else {
		l.URL = URL{}
	}
}
