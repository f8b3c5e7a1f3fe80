package parser

import "slices"

// loads takes an attribute with the address of something that the page loads. It notes the address if a page with an
// https URL loads it over http.
func (w *walker) loads(a attrName) {
	if w.isSecure && w.tag.has(a) {
		w.noteInsecure(w.value(a))
	}
}

// loadsSet does the same for the sources of a srcset attribute.
func (w *walker) loadsSet() {
	if !w.tag.has(attrSrcset) {
		return
	}
	for token, rest := cutToken(w.value(attrSrcset)); len(token) > 0; token, rest = cutToken(rest) {
		for len(token) > 0 && token[len(token)-1] == ',' {
			token = token[:len(token)-1]
		}
		if hasScheme(token, "http") {
			w.noteInsecure(token)
		}
	}
}

// noteInsecure keeps the address if it leads to http. Only such an address, or any on a page whose base is http, is
// resolved.
func (w *walker) noteInsecure(address []byte) {
	f := &w.facts
	if len(f.insecure) >= maxInsecure || f.loaded >= maxLoaded || len(address) > maxHref ||
		len(trimSpace(address)) == 0 || !hasScheme(address, "http") && w.base.Scheme() != "http" {
		return
	}
	f.loaded++
	u, err := w.base.Resolve(string(address))
	if err == nil && u.Scheme() == "http" && !slices.Contains(f.insecure, u.String()) {
		f.insecure = append(f.insecure, u.String())
	}
}
