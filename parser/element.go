package parser

import "github.com/cespare/xxhash/v2"

// element takes links and facts from a start tag with attributes that matter.
func (w *walker) element(html bool) {
	t := &w.tag
	w.scratch = w.scratch[:0]
	if w.parser.opts.IDs {
		w.addID(attrID)
		if t.elem == elemA {
			w.addID(attrNamed)
		}
	}
	if w.parser.opts.Assets && html {
		w.assets()
	}
	switch {
	case t.elem == elemA:
		w.closeAnchor()
		w.texts.href = w.written(attrHref)
		if !t.has(attrHref) {
			return
		}
		if i := w.addLink(KindA, w.value(attrHref), w.value(attrRel)); i >= 0 && !w.parser.opts.NoLinkText {
			w.anchorLink = i
			w.anchor.begin(maxText)
		}
	case !html:
		// None of the elements below exists in svg or math.
	case t.elem == elemLink:
		w.linkElement()
	case t.elem == elemMeta:
		w.meta()
	case t.traits&heading != 0:
		w.closeHeading()
		switch {
		case t.elem != elemH1:
		case w.facts.h1.start == w.facts.h1.end:
			w.heading.begin(maxH1)
		default:
			w.heading.begin(1) // only whether it has text matters
		}
	case t.elem == elemImg:
		w.shown()
		w.texts.add(w.written(attrAlt))
		if w.isSecure {
			w.loads(attrSrc)
			w.loadsSet()
		}
		if w.parser.opts.Images {
			w.image()
		}
	case t.elem == elemArea:
		if t.has(attrHref) {
			w.addLink(KindArea, w.value(attrHref), w.value(attrRel))
		}
	case t.elem == elemMedia:
		w.shown()
	case t.elem == elemIframe:
		w.texts.addSource(w.written(attrSrc))
		w.loads(attrSrc)
		w.source(KindIframe)
	case t.elem == elemFrame:
		w.texts.addSource(w.written(attrSrc))
		w.loads(attrSrc)
		w.source(KindFrame)
	case t.elem == elemScript:
		w.loads(attrSrc)
	case t.elem == elemBase:
		if t.has(attrHref) && !w.baseSet && !w.noscript {
			w.setBase(w.value(attrHref))
		}
	case t.elem == elemHTML:
		if t.has(attrLang) {
			w.setLanguage(w.value(attrLang), languageHTML)
		}
	}
}

// addID takes a name of the current element, to which a fragment can lead.
func (w *walker) addID(a attrName) {
	if id := w.value(a); len(id) > 0 && len(w.facts.ids) <= maxIDs {
		w.facts.ids = append(w.facts.ids, HashID(id))
	}
}

// HashID is the hash of an id in Page.IDs.
func HashID(id []byte) uint32 { return uint32(xxhash.Sum64(id)) }

// shown takes the addresses of an image, a sound or a film into the hash of the text.
func (w *walker) shown() {
	w.texts.addSource(w.written(attrSrc))
	w.texts.addSource(w.written(attrSrcset))
	w.texts.addSource(w.written(attrData))
}

// source records the src of a frame.
func (w *walker) source(kind Kind) {
	if src := trimSpace(w.value(attrSrc)); len(src) > 0 {
		w.addLink(kind, src, nil)
	}
}

// linkElement records a link element if its relation is one that leads to pages.
func (w *walker) linkElement() {
	href, rel := w.value(attrHref), w.value(attrRel)
	if len(trimSpace(href)) > 0 {
		w.related(KindLink, href, rel, w.value(attrHreflang))
	}
}

// related records a link if its relation leads to pages, and the facts that the relation states.
func (w *walker) related(kind Kind, href, rel, hreflang []byte) {
	var follow, canonical, alternate bool
	for token, rest := cutToken(rel); len(token) > 0; token, rest = cutToken(rest) {
		switch {
		case equalFold(token, "canonical"):
			canonical = true
		case equalFold(token, "alternate"):
			alternate = true
		case equalFold(token, "next"), equalFold(token, "prev"), equalFold(token, "amphtml"):
			follow = true
		case equalFold(token, "stylesheet"):
			if kind == KindLink {
				w.loads(attrHref)
			}
			return
		}
	}
	if !follow && !canonical && !alternate {
		return
	}
	i := w.addLink(kind, href, rel)
	if i < 0 {
		return
	}
	f := &w.facts
	if canonical && (f.canonical < 0 || w.links[f.canonical].kind == KindHeader && kind != KindHeader) {
		f.canonical = i
	}
	hreflang = trimSpace(hreflang)
	if alternate && len(hreflang) > 0 && len(f.hreflang) < maxHreflang && !hasControl(hreflang) {
		f.hreflang = append(f.hreflang, hreflangRecord{w.keep(cutText(hreflang, maxLanguage)), i})
	}
}

// image records an image: its src; without one its data-src, from which scripts load it later; else the largest of its
// srcset.
func (w *walker) image() {
	src := w.value(attrSrc)
	if !isFile(src) {
		src = w.value(attrData)
	}
	if !isFile(src) {
		src = largestSource(w.value(attrSrcset))
	}
	if len(src) == 0 {
		return
	}
	if i := w.addLink(KindImage, src, nil); i >= 0 && w.tag.has(attrAlt) {
		w.passing.begin(maxText)
		w.passing.addDecoded(w.value(attrAlt))
		w.setText(i, w.passing.end())
	}
}

// isFile reports whether an attribute has the address of a file, and not the file itself.
func isFile(address []byte) bool { return len(trimSpace(address)) > 0 && !hasScheme(address, "data") }

// assets records the files that an element loads.
func (w *walker) assets() {
	add := func(address []byte) {
		if isFile(address) {
			w.addLink(KindAsset, address, nil)
		}
	}
	switch rel := w.value(attrRel); w.tag.elem {
	case elemImg, elemMedia:
		add(w.value(attrSrc))
		add(w.value(attrData))
		add(w.value(attrPoster))
		eachSource(w.value(attrSrcset), func(url, _ []byte) { add(url) })
	case elemScript:
		add(w.value(attrSrc))
	case elemLink:
		if hasToken(rel, "stylesheet") || hasToken(rel, "icon") {
			add(w.value(attrHref))
		}
	}
}

// rawElement takes facts from the content of a raw text element.
func (w *walker) rawElement(content []byte) {
	switch w.tag.elem {
	case elemTextarea:
		w.texts.add(content)
	case elemTitle:
		w.texts.add(content)
		if w.facts.titleSet {
			return
		}
		w.facts.titleSet = true
		w.passing.begin(maxTitle)
		w.passing.rcdata = true
		w.passing.add(content)
		w.facts.title = w.keep(w.passing.end())
	case elemScript:
		w.script(content)
	}
}

// The sources of a page's language, worst first.
const (
	languageHeader = 1 + iota
	languageMeta
	languageHTML
)

// setLanguage takes the page's language from a source. It ignores a list of languages.
func (w *walker) setLanguage(lang []byte, rank uint8) {
	lang = trimSpace(lang)
	f := &w.facts
	if len(lang) == 0 || len(lang) > maxLanguage || rank <= f.languageRank {
		return
	}
	for _, c := range lang {
		if c == ',' || c <= ' ' {
			return
		}
	}
	f.language, f.languageRank = w.keep(lang), rank
}
