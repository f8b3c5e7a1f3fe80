package parser

import "bytes"

// script takes facts and links from the data that a script element holds.
func (w *walker) script(content []byte) {
	t := &w.tag
	if t.has(attrType) && equalFold(mediaType(w.value(attrType)), "application/ld+json") {
		w.jsonLD(content)
	}
	if w.parser.opts.StructuredLinks && t.has(attrID) && string(w.value(attrID)) == "__NEXT_DATA__" {
		w.nextData(content)
	}
}

// mediaType cuts the parameters off a media type.
func mediaType(b []byte) []byte {
	b, _, _ = bytes.Cut(b, []byte(";"))
	return trimSpace(b)
}

// jsonLD takes the types, the date and on request the links of linked data.
func (w *walker) jsonLD(content []byte) {
	r := &w.json
	r.reset(content)
	for {
		key, value, ok := r.next(isContext)
		if !ok {
			return
		}
		switch {
		case string(key) == "@type":
			w.addType(value)
		case string(key) == "dateModified":
			w.setModified(value, modifiedJSONLD)
		case w.parser.opts.StructuredLinks && isURLKey(key):
			w.dataLink(value, "json-ld")
		}
	}
}

// isContext matches the key of vocabularies, which are not data.
func isContext(key []byte) bool { return string(key) == "@context" }

// isURLKey reports whether what stands under the key is the address of a page, and
// not of a picture, a vocabulary or a search form.
func isURLKey(key []byte) bool {
	switch string(key) {
	case "url", "@id", "item", "itemListElement", "mainEntityOfPage", "sameAs", "relatedLink",
		"significantLink", "hasPart", "isPartOf", "discussionUrl":
		return true
	}
	return false
}

// addType keeps a type that is not there yet.
func (w *walker) addType(value []byte) {
	f := &w.facts
	if len(f.types) >= maxTypes || len(value) > maxType {
		return
	}
	before := len(w.arena)
	w.arena = appendJSONString(w.arena, value)
	name := w.arena[before:]
	for _, known := range f.types {
		if bytes.Equal(known.of(w.arena), name) {
			w.arena = w.arena[:before]
			return
		}
	}
	if hasControl(name) {
		w.arena = w.arena[:before]
	} else if len(name) > 0 {
		f.types = append(f.types, span{uint32(before), uint32(len(w.arena))})
	}
}

// dataLink records the string value as a link if it looks like one: absolute, or
// with a path from the root, and no template.
func (w *walker) dataLink(value []byte, rel string) {
	if len(value) > maxHref {
		return
	}
	w.scratch = appendJSONString(w.scratch[:0], value)
	url := w.scratch
	if !isAbsolute(url) && !isRooted(url) || bytes.ContainsAny(url, "{}[]<> \n\t") {
		return
	}
	w.addLink(KindLink, url, []byte(rel))
}

func isAbsolute(url []byte) bool {
	return hasPrefixFold(url, "http://") || hasPrefixFold(url, "https://")
}

// isRooted reports whether url is a path from the root.
func isRooted(url []byte) bool {
	return len(url) > 1 && url[0] == '/' && url[1] != '/'
}
