package urlnorm

import "strings"

// A splice is a canonical URL put together from two pieces of base and
// reference, neither of which needs a change.
type splice struct {
	head, tail string
	at         offsets // into head+tail
}

// spliceOf recognises the plain reference: ASCII, clean, and either absolute or
// relative with dot segments at most in front. It reports false whenever it is
// not sure; what it does return is what the complete parser would.
func (u URL) spliceOf(ref string) (splice, bool) {
	if len(u.text)+len(ref) > maxLen {
		return splice{}, false
	}
	ref = trimControl(ref)
	if n := schemeLen(ref); n > 0 {
		if o := u.Origin(); o != "" && len(ref) > len(o) && ref[len(o)] == '/' && ref[:len(o)] == o {
			return u.splicePath("", ref, len(o))
		}
		return spliceAuthority("", ref, n)
	}
	if u.IsZero() {
		return splice{}, false
	}
	if ref == "" {
		return u.splice(u.text, "", int(u.queryAt)), true
	}
	switch ref[0] {
	case '#':
		return u.splice(u.text, "", int(u.queryAt)), true
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
	for {
		n := leadingDots(ref)
		if n == 0 {
			break
		}
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

// splice joins head and tail into a URL whose authority is at.
func (at offsets) splice(head, tail string, queryAt int) splice {
	return splice{head, tail, offsets{at.hostEnd, at.pathAt, uint32(queryAt)}}
}

// splicePath joins head to ref, whose path is plain up to i.
func (at offsets) splicePath(head, ref string, i int) (splice, bool) {
	query, end, ok := scanPath(ref, i)
	return at.splice(head, ref[:end], len(head)+query), ok
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

// scanPath walks ref from i, inside its path, to its fragment or its end. It
// reports false on anything that has to change. query is where the query begins,
// or end.
func scanPath(ref string, i int) (query, end int, ok bool) {
	for {
		for i < len(ref) && plainInPath[ref[i]] {
			i++
		}
		if i == len(ref) {
			return i, i, true
		}
		switch ref[i] {
		case '/':
			if i++; i < len(ref) && ref[i] == '.' && leadingDots(ref[i:]) > 0 {
				return 0, 0, false
			}
		case '%':
			if !plainEscape(ref[i:]) {
				return 0, 0, false
			}
			i += 3
		case '?':
			end, ok = scanQuery(ref, i+1)
			return i, end, ok
		case '#':
			return i, i, true
		default:
			return 0, 0, false
		}
	}
}

// scanQuery is scanPath from inside the query.
func scanQuery(ref string, i int) (end int, ok bool) {
	for {
		for i < len(ref) && plainInQuery[ref[i]] {
			i++
		}
		if i == len(ref) || ref[i] == '#' {
			return i, true
		}
		if ref[i] != '%' || !plainEscape(ref[i:]) {
			return 0, false
		}
		i += 3
	}
}

// leadingDots returns the length of a dot segment that s begins with, or 0.
// Dots that are escaped are left to plainEscape, which refuses them.
func leadingDots(s string) int {
	n := 0
	for n < len(s) && s[n] == '.' {
		n++
	}
	if n > 2 || n < len(s) && s[n] != '/' && s[n] != '?' && s[n] != '#' {
		return 0
	}
	return n
}

// plainEscape reports whether s, which begins with "%", begins with an escape
// that stays as it is.
func plainEscape(s string) bool {
	if len(s) < 3 {
		return false
	}
	hi, lo := unhexUpper[s[1]], unhexUpper[s[2]]
	return hi|lo <= 15 && !unreserved[hi<<4|lo]
}

// The bytes that stay as they are and end nothing, by where they stand. Hosts
// have more of them; these are the common ones.
var (
	plainInPath  = plainSet(&pathSet, "/\\?#%")
	plainInQuery = plainSet(&querySet, "#%")
	plainInHost  = setOf("abcdefghijklmnopqrstuvwxyz0123456789-._")
)

func plainSet(encoded *byteSet, special string) (set byteSet) {
	for c := range set {
		set[c] = !encoded[c] && strings.IndexByte(special, byte(c)) < 0
	}
	return set
}
