package urlnorm

import "strings"

// Resolve reads ref relative to u. With the zero URL it reads absolute URLs
// only.
func (u URL) Resolve(ref string) (URL, error) {
	r, err := parse(recordOf(u), ref)
	if err != nil {
		return URL{}, err
	}
	text, out := r.appendCanonical(nil)
	out.text = string(text)
	return out, nil
}

// AppendResolve appends the canonical text of ref relative to u to dst. On an
// error it returns dst as it was.
func (u URL) AppendResolve(dst, ref []byte) ([]byte, error) {
	r, err := parse(recordOf(u), string(ref))
	if err != nil {
		return dst, err
	}
	dst, _ = r.appendCanonical(dst)
	return dst, nil
}

// Whatwg resolves raw against base as the URL Standard does and serialises it
// before any canonical form: user information and fragment are still there. An
// empty base, or one that is not http or https, is no base. It is what the
// conformance data is held against.
func Whatwg(base, raw string) (href string, err error) {
	var b *record
	if strings.TrimSpace(base) != "" {
		r, err := parse(nil, base)
		switch err {
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
