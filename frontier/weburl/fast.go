package weburl

import (
	"bytes"
	"strings"
)

// A splice is a canonical URL put together from two pieces of base and
// reference, neither of which needs a change.
type splice struct {
	head, tail string
	at         offsets // into head+tail
}

// spliceOf recognises the plain reference: ASCII, clean, and either absolute or relative with dot segments at most in
// front. It reports false whenever it is not sure. If it reports true, the complete parser would return the same.
func (u URL) spliceOf(ref string) (splice, bool) {
	if len(u.text)+len(ref) > maxLen {
		return splice{}, false
	}
	ref = trimControl(ref)
	if o := u.Origin(); len(ref) > len(o) && ref[len(o)] == '/' && o != "" && ref[:len(o)] != o &&
		equalFold(ref[:len(o)], o) {
		return u.splicePath(o, ref[len(o):], 0) // upper case in scheme and host does not matter
	}
	if n := schemeLen(ref); n > 0 {
		if o := u.Origin(); o != "" && len(ref) > len(o) && ref[len(o)] == '/' && ref[:len(o)] == o {
			return u.splicePath("", ref, len(o))
		}
		return spliceAuthority("", ref, n)
	}
	if u.IsZero() {
		return splice{}, false
	}
	if ref == "" || ref[0] == '#' {
		return u.splice(u.text, "", int(u.queryAt)), true
	}
	switch ref[0] {
	case '?':
		end, ok := scanQuery(ref, 1)
		return u.splice(u.text[:u.queryAt], ref[:end], int(u.queryAt)), ok
	case '/':
		if len(ref) > 1 && ref[1] == '/' {
			return spliceAuthority(u.text[:u.hostAt()-len("//")], ref, len("//"))
		}
		return u.splicePath(u.Origin(), ref, 0)
	}
	head := u.text[:int(u.pathAt)+strings.LastIndexByte(u.Path(), '/')+1]
	for n := leadingDots(ref); n > 0; n = leadingDots(ref) {
		if n == 2 {
			head = u.parent(head)
		}
		ref = ref[n:]
		if ref == "" || ref[0] != '/' {
			return u.splicePath(head, ref, 0)
		}
		ref = ref[1:]
	}
	// A colon in the first segment may end a scheme.
	i := 0
	for ; i < len(ref) && plainInPath[ref[i]]; i++ {
		if ref[i] == ':' {
			return splice{}, false
		}
	}
	return u.splicePath(head, ref, i)
}

// equalFold reports whether s, folded to lower case, is t. Both are of one length.
func equalFold(s, t string) bool {
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != t[i] {
			return false
		}
	}
	return true
}

// splice joins head and tail into a URL whose host and path are at the offsets at.
func (at offsets) splice(head, tail string, queryAt int) splice {
	return splice{head, tail, offsets{at.hostEnd, at.pathAt, uint32(queryAt)}}
}

// splicePath joins head to ref, whose path is plain up to i.
func (at offsets) splicePath(head, ref string, i int) (splice, bool) {
	query, end, ok := scanPath(ref, i)
	return at.splice(head, ref[:end], len(head)+query), ok
}

// appendPath appends u with the path and query of ref, which begins with one slash, if all that has to be changed in it
// are dot segments and escapes. It reports false whenever it is not sure; then the caller must drop what was appended.
func (u URL) appendPath(dst []byte, ref string) ([]byte, offsets, bool) {
	start := len(dst)
	dst = append(dst, u.Origin()...)
	at := u.offsets
	for i := 0; i < len(ref); {
		switch c := ref[i]; {
		case plainInPath[c]:
			dst = append(dst, c)
			i++
		case c == '/':
			dots := leadingDots(ref[i+1:])
			if dots == 2 {
				path := dst[start+int(at.pathAt):]
				dst = dst[:len(dst)-len(path)+max(0, bytes.LastIndexByte(path, '/'))]
			}
			i += 1 + dots
			if dots == 0 || i == len(ref) || ref[i] != '/' {
				dst = append(dst, '/')
			}
		case c == '%':
			if len(ref) < i+3 {
				return dst, at, false
			}
			hi, lo := unhex[ref[i+1]], unhex[ref[i+2]]
			b := hi<<4 | lo
			switch {
			case hi|lo > 15 || b == '.':
				return dst, at, false
			case unreserved[b]:
				dst = append(dst, b)
			default:
				dst = append(dst, '%', upperHex[hi], upperHex[lo])
			}
			i += 3
		case c == '?':
			end, ok := scanQuery(ref, i+1)
			if !ok {
				return dst, at, false
			}
			at.queryAt = uint32(len(dst) - start)
			return append(dst, ref[i:end]...), at, true
		case c == '#':
			at.queryAt = uint32(len(dst) - start)
			return dst, at, true
		default:
			return dst, at, false
		}
	}
	at.queryAt = uint32(len(dst) - start)
	return dst, at, true
}

// parent cuts the last segment off dir, which ends in a slash.
func (at offsets) parent(dir string) string {
	i := strings.LastIndexByte(dir[at.pathAt:len(dir)-1], '/')
	if i < 0 {
		return dir
	}
	return dir[:int(at.pathAt)+i+1]
}

// spliceAuthority joins scheme, which may be empty, to ref, in which the
// authority begins at hostAt.
func spliceAuthority(scheme, ref string, hostAt int) (splice, bool) {
	label, i := hostAt, hostAt
	for i < len(ref) && plainInHost[ref[i]] {
		if ref[i] == '.' && i+1 < len(ref) && plainInHost[ref[i+1]] {
			label = i + 1
		}
		i++
	}
	// A last label that begins with a digit may make the host an IPv4 address.
	if i == hostAt || '0' <= ref[label] && ref[label] <= '9' {
		return splice{}, false
	}
	at := offsets{hostEnd: uint32(len(scheme) + i)}
	if i < len(ref) && ref[i] == ':' {
		port := i + 1
		for i = port; i < len(ref) && '0' <= ref[i] && ref[i] <= '9'; i++ {
		}
		if !plainPort(ref[port:i]) {
			return splice{}, false
		}
	}
	at.pathAt = uint32(len(scheme) + i)
	if i == len(ref) && scheme == "" {
		return at.splice(ref, "/", i+1), true
	}
	if i == len(ref) || ref[i] != '/' {
		return splice{}, false
	}
	return at.splicePath(scheme, ref, i)
}

// plainPort reports whether a port is certain to stay as it is: no leading zero,
// no default of either scheme, not too large.
func plainPort(s string) bool {
	return len(s) > 0 && len(s) < 5 && s[0] != '0' && s != "80" && s != "443"
}
