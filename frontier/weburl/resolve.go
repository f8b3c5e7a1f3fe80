package weburl

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
	switch {
	case s.tail == "":
		return URL{s.head, s.at}, nil // the head is a piece of u
	case s.head == "":
		return URL{strings.Clone(s.tail), s.at}, nil
	default:
		return URL{s.head + s.tail, s.at}, nil
	}
}

// AppendResolve appends the canonical text of ref relative to u to dst, and
// returns its outline. On an error it returns dst as it was.
func (u URL) AppendResolve(dst, ref []byte) ([]byte, Outline, error) {
	// This is a view of ref and does not outlive the call: whatever comes of it
	// is appended to dst, and errors do not hold it.
	view := unsafe.String(unsafe.SliceData(ref), len(ref))
	if isLocal(view) && !u.IsZero() && len(u.text)+len(view) <= maxLen {
		if query, end, ok := scanPath(view, 0); ok {
			origin := u.Origin()
			at := offsets{u.hostEnd, u.pathAt, uint32(len(origin) + query)}
			return append(append(dst, origin...), view[:end]...), Outline{at}, nil
		}
	}
	if s, ok := u.spliceOf(view); ok {
		dst = append(dst, s.head...)
		return append(dst, s.tail...), Outline{s.at}, nil
	}
	if isOpaque(view) {
		return dst, Outline{}, ErrScheme
	}
	if path := trimControl(view); !u.IsZero() && len(path) > 1 && path[0] == '/' && path[1] != '/' &&
		len(u.text)+len(path) <= maxLen {
		if out, at, ok := u.appendPath(dst, path); ok {
			return out, Outline{at}, nil
		}
	}
	var r record
	base := u.record()
	if err := r.parse(&base, view); err != nil {
		return dst, Outline{}, err
	}
	dst, at := r.appendCanonical(dst)
	return dst, Outline{at}, nil
}

// isLocal recognises the most frequent form of a reference: a path from the root.
func isLocal(ref string) bool {
	return len(ref) > 1 && ref[0] == '/' && ref[1] != '/' && ref[len(ref)-1] > ' '
}

// isOpaque recognises references that are no web addresses: "mailto:", "tel:", "javascript:", "data:" and whatever else
// has a scheme of its own with no slash behind it. The complete parser would refuse them for their scheme.
func isOpaque(ref string) bool {
	ref = trimControl(ref)
	for i := range len(ref) {
		switch c := ref[i] | 0x20; {
		case 'a' <= c && c <= 'z':
		case ref[i] == ':':
			return i > 0 && i+1 < len(ref) && ref[i+1] > ' ' && ref[i+1] != '/' && !isSpecial(ref[:i])
		default:
			return false
		}
	}
	return false
}

// isSpecial reports whether a scheme is one that the URL Standard has rules of
// its own for.
func isSpecial(scheme string) bool {
	switch strings.ToLower(scheme) {
	case "http", "https", "ftp", "ws", "wss", "file":
		return true
	}
	return false
}

// resolveSlow is Resolve by way of the complete parser.
func (u URL) resolveSlow(ref string) (URL, error) {
	var r record
	base := u.record()
	if err := r.parse(&base, ref); err != nil {
		return URL{}, err
	}
	var buf [256]byte
	text, at := r.appendCanonical(buf[:0])
	return URL{string(text), at}, nil
}
