package parser

// nextData takes links from the data that a Next.js page renders itself from:
// strings that are absolute URLs, and paths from the root under a key that says
// so. Build artefacts are not pages. The other strings are the text of the page.
func (w *walker) nextData(content []byte) {
	r := &w.json
	r.reset(content)
	for {
		key, value, ok := r.next(isArtefact)
		if !ok {
			return
		}
		switch {
		case hasPrefixFold(value, "/_next/"):
		case isAbsolute(value), isPathKey(key):
			w.dataLink(value, "next-data")
		default:
			w.texts.add(value)
		}
	}
}

// isArtefact matches keys under which Next.js keeps its own data.
func isArtefact(key []byte) bool {
	switch string(key) {
	case "assetPrefix", "buildId", "page", "scriptLoader", "dynamicIds":
		return true
	}
	return false
}

// isPathKey reports whether a path under the key is the address of a page.
func isPathKey(key []byte) bool {
	switch string(key) {
	case "href", "url", "link", "path", "permalink", "canonical", "canonicalUrl", "as", "asPath", "to", "uri":
		return true
	}
	return false
}
