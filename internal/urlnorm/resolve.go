package urlnorm

import (
	"strings"
	"unsafe"
)

// Resolve reads ref relative to u. With the zero URL it reads absolute URLs
// only. The result shares no memory with ref.
func (u URL) Resolve(ref string) (URL, error) {
	s, ok := u.spliceOf(ref)
	if !ok {
		return u.resolveSlow(ref)
	}
	out := s.at
	switch {
	case s.tail == "":
		out.text = s.head // a piece of u
	case s.head == "":
		out.text = strings.Clone(s.tail)
	default:
		out.text = s.head + s.tail
	}
	return out, nil
}

// AppendResolve appends the canonical text of ref relative to u to dst. On an
// error it returns dst as it was.
func (u URL) AppendResolve(dst, ref []byte) ([]byte, error) {
	// The string is a view of ref that does not outlive this call: whatever
	// comes of it is appended to dst, a copy.
	s, ok := u.spliceOf(unsafe.String(unsafe.SliceData(ref), len(ref)))
	if !ok {
		r, err := u.parse(string(ref))
		if err != nil {
			return dst, err
		}
		dst, _ = r.appendCanonical(dst)
		return dst, nil
	}
	dst = append(dst, s.head...)
	return append(dst, s.tail...), nil
}

// resolveSlow is Resolve by way of the complete parser.
func (u URL) resolveSlow(ref string) (URL, error) {
	r, err := u.parse(ref)
	if err != nil {
		return URL{}, err
	}
	var buf [256]byte
	text, out := r.appendCanonical(buf[:0])
	out.text = string(text)
	return out, nil
}

func (u URL) parse(ref string) (record, error) {
	if u.IsZero() {
		return parse(nil, ref)
	}
	base := recordOf(u)
	return parse(&base, ref)
}

// Whatwg resolves raw against base as the URL Standard does and serialises it
// before any canonical form: user information and fragment are still there. An
// empty base, or one of another scheme, is no base. It is what the conformance
// data is held against.
func Whatwg(base, raw string) (href string, err error) {
	var b *record
	if base != "" {
		switch r, err := parse(nil, base); err {
		case nil:
			b = &r
		case ErrScheme:
		default:
			return "", err
		}
	}
	r, err := parse(b, raw)
	if err != nil {
		return "", err
	}
	return r.href(), nil
}
