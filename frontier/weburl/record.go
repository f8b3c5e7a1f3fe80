package weburl

// A record is what the URL Standard calls a URL record, for an http or https
// URL. Its parts are percent-encoded as the standard serialises them.
type record struct {
	scheme      string // "http" or "https"
	user, pass  string
	host        string
	port        string // "" for the default
	path        string // begins with a slash
	query       string
	fragment    string
	hasQuery    bool
	hasFragment bool
}

// appendCanonical appends r's canonical text to dst and returns the offsets of
// its parts, counted from its own start.
func (r *record) appendCanonical(dst []byte) ([]byte, offsets) {
	start := len(dst)
	var at offsets
	dst = append(dst, r.scheme...)
	dst = append(dst, "://"...)
	dst = append(dst, r.host...)
	at.hostEnd = uint32(len(dst) - start)
	if r.port != "" {
		dst = append(dst, ':')
		dst = append(dst, r.port...)
	}
	at.pathAt = uint32(len(dst) - start)
	dst = appendCanonical(dst, r.path)
	at.queryAt = uint32(len(dst) - start)
	if r.hasQuery {
		dst = append(dst, '?')
		dst = appendCanonical(dst, r.query)
	}
	return dst, at
}

// record takes u apart again. The zero URL makes the zero record.
func (u URL) record() record {
	return record{
		scheme:   u.Scheme(),
		host:     u.Host(),
		port:     u.Port(),
		path:     u.Path(),
		query:    u.Query(),
		hasQuery: int(u.queryAt) < len(u.text),
	}
}
