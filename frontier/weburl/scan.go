package weburl

import "strings"

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

// The bytes that stay as they are and do not end the part of the URL in which they stand. For hosts, these are only the
// common ones.
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
