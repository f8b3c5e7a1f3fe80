package testweb

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Validators says which validators the pages of a host have, and how the host answers a request that has conditions.
// Without it a host sends a strong ETag and the date, and answers as RFC 9110 says (mode both).
type Validators struct {
	// Mode is one of
	//
	//	both             a strong ETag and Last-Modified
	//	etag             a strong ETag
	//	weak             a weak ETag
	//	gzip_suffix      both, and gzip for a client that accepts it: the ETag then ends in -gzip, which is never compared as equal
	//	date             Last-Modified
	//	none             no validators
	//	always_304       both, and 304 to every request that has a condition
	//	bare_304         the same, but a 304 has no validators, so that nothing in it shows that it is false
	//	never_304        both, and conditions are not looked at
	//	now              Last-Modified is always the time of the answer, and no condition by date holds
	//	future           Last-Modified is in 2099, later for each change
	//	unasked_304      no validators, and from generation 1 on 304 to the first request without conditions for each page and generation
	//
	// Empty means both.
	Mode string `yaml:"mode"`
}

// validatorMode is the number of a mode.
type validatorMode uint8

const (
	validBoth validatorMode = iota
	validETag
	validWeak
	validGzipSuffix
	validDate
	validNone
	validAlways304
	validBare304
	validNever304
	validNow
	validFuture
	validUnasked304
	numValidatorModes
)

func validatorModes() []string {
	names := [numValidatorModes]string{
		validBoth: "both", validETag: "etag", validWeak: "weak", validGzipSuffix: "gzip_suffix", validDate: "date",
		validNone:      "none",
		validAlways304: "always_304", validBare304: "bare_304", validNever304: "never_304", validNow: "now",
		validFuture: "future", validUnasked304: "unasked_304",
	}
	return names[:]
}

func (Validators) Kind() string { return "validators" }

func (f Validators) mode() (validatorMode, bool) {
	for i, name := range validatorModes() {
		if f.Mode == name {
			return validatorMode(i), true
		}
	}
	return validBoth, f.Mode == ""
}

func (f Validators) validate(Config) error {
	if _, ok := f.mode(); !ok {
		return fmt.Errorf("mode %q: want one of %s", f.Mode, strings.Join(validatorModes(), ", "))
	}
	return nil
}

func (f Validators) install(p *plan, _ *web) { p.validators, _ = f.mode() }

// hasETag reports whether pages have an ETag.
func (m validatorMode) hasETag() bool {
	switch m {
	case validDate, validNone, validNow, validFuture, validUnasked304:
		return false
	}
	return true
}

// hasDate reports whether pages have a Last-Modified.
func (m validatorMode) hasDate() bool {
	switch m {
	case validETag, validWeak, validNone, validUnasked304:
		return false
	}
	return true
}

// validators are those of one answer.
type validators struct {
	mode   validatorMode
	tag    uint64
	date   time.Time
	zipped bool
}

// validators returns those of a page in its present state.
func (x *exchange) validators(hash uint64, st pageState) validators {
	v := validators{mode: x.h.plan.validators, tag: etag(hash, st.body)}
	switch {
	case v.mode == validNow:
		v.date = x.start
	case v.mode == validFuture:
		v.date = futureDate(st.content)
	case v.mode.hasDate():
		v.date = x.gen.modified(hash, st.content)
	}
	v.zipped = v.mode == validGzipSuffix && x.req.gzip
	return v
}

// etag is the number in the ETag of a page whose body changed last in a generation.
func etag(hash uint64, body int) uint64 {
	if body == 0 {
		return hash
	}
	return mix(hash + uint64(body)*0xd6e8feb86659fd93)
}

func futureDate(content int) time.Time { return time.Date(2099, 1, 1+content, 0, 0, 0, 0, time.UTC) }

// appendTo appends the header lines.
func (v validators) appendTo(dst []byte) []byte {
	if v.mode.hasETag() {
		dst = append(dst, "ETag: "...)
		if v.mode == validWeak {
			dst = append(dst, "W/"...)
		}
		dst = append(dst, '"')
		dst = strconv.AppendUint(dst, v.tag, 16)
		if v.zipped {
			dst = append(dst, "-gzip"...)
		}
		dst = append(dst, "\"\r\n"...)
	}
	if v.mode.hasDate() {
		dst = append(dst, "Last-Modified: "...)
		dst = v.date.UTC().AppendFormat(dst, http.TimeFormat)
		dst = append(dst, "\r\n"...)
	}
	return dst
}

// notModified reports whether a request is answered 304: RFC 9110, section 13.2.2, unless the mode says otherwise.
func (v validators) notModified(r *request) bool {
	switch {
	case !r.conditional() || v.mode == validNever304:
		return false
	case v.mode == validAlways304 || v.mode == validBare304:
		return true
	case r.noneMatch != nil:
		return v.matches(r.noneMatch)
	case !v.mode.hasDate() || v.mode == validNow:
		return false
	}
	since, err := http.ParseTime(string(r.modifiedSince))
	return err == nil && !v.date.Truncate(time.Second).After(since)
}

// matches compares the ETag with an If-None-Match as RFC 9110 does for a GET: weakly, with each of a list.
func (v validators) matches(list []byte) bool {
	if string(list) == "*" {
		return true
	}
	if !v.mode.hasETag() {
		return false
	}
	var number [16]byte
	tag := strconv.AppendUint(number[:0], v.tag, 16)
	for {
		_, rest, ok := bytes.Cut(list, []byte{'"'}) // what is before it is a comma, white space or W/
		opaque, rest, closed := bytes.Cut(rest, []byte{'"'})
		if !ok || !closed {
			return false
		}
		if bytes.Equal(opaque, tag) {
			return true
		}
		list = rest
	}
}

// tree answers with a page of the tree, an orphan or a page that has moved: the path that must be fast.
func (x *exchange) tree() {
	w := x.s.web
	from := ref{x.h.id, x.node}
	st := w.state(from, x.gen.n)
	switch {
	case st.status >= 400:
		x.reply(st.status, typeHTML, "", simplePage(http.StatusText(st.status), ""))
		return
	case st.status >= 300:
		x.redirect(st.status, x.h.id, string(w.appendURI(nil, x.h.id, st.to)))
		return
	}
	v := x.validators(nodeHash(w.cfg.Seed, x.h.id, w.original(x.h.id, x.node)), st)
	b := x.s.buffer()
	defer x.s.release(b)
	notModified := v.notModified(&x.req) || v.mode == validUnasked304 && x.isUnasked()
	if !notModified || v.mode != validBare304 {
		b.extra = v.appendTo(b.extra)
	}
	if st.noindex && st.kind == pageNoIndexHeader {
		b.extra = append(b.extra, "X-Robots-Tag: noindex\r\n"...)
	}
	if notModified {
		x.send(b, http.StatusNotModified, "")
		return
	}
	if v.zipped {
		b.extra = append(b.extra, "Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n"...)
		b.body = appendGzip(b.body, w.appendPage(nil, from, x.gen.n))
	} else {
		b.body = w.appendPage(b.body, from, x.gen.n)
	}
	x.send(b, http.StatusOK, typeHTML)
}

// isUnasked reports whether this is the first request for a page in its generation, from 1 on, and has no condition.
func (x *exchange) isUnasked() bool {
	if x.gen.n == 0 || x.req.conditional() {
		return false
	}
	h := x.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unasked == nil {
		h.unasked = make([]uint64, (x.s.web.nodes(h.id)+63)/64)
	}
	word, bit := &h.unasked[x.node/64], uint64(1)<<(x.node%64)
	first := *word&bit == 0
	*word |= bit
	return first
}

// appendGzip appends a body, compressed.
func appendGzip(dst, body []byte) []byte {
	out := bytes.NewBuffer(dst)
	z := gzip.NewWriter(out)
	if _, err := z.Write(body); err == nil {
		z.Close() // neither fails: the buffer grows
	}
	return out.Bytes()
}
