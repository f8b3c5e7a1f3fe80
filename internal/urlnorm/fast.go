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
