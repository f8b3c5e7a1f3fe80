package weburl

import (
	"bytes"
	"strings"
)

// setPathQueryFragment reads s, which begins after a slash, as segments below
// dir, which is empty or a path without its last slash.
func (r *record) setPathQueryFragment(dir, s string) {
	end := 0
	for end < len(s) && s[end] != '?' && s[end] != '#' {
		end++
	}
	path := make([]byte, 0, len(dir)+end+1)
	path = append(path, dir...)
	for rest, more := s[:end], true; more; {
		var seg string
		seg, rest, more = cutSegment(rest)
		switch dots(seg) {
		case 0:
			path = append(path, '/')
			path = appendEncoded(path, seg, &pathSet)
			continue
		case 2:
			path = path[:max(0, bytes.LastIndexByte(path, '/'))]
		}
		if !more {
			path = append(path, '/')
		}
	}
	r.path = string(path)
	r.setQueryFragment(s[end:])
}

func cutSegment(s string) (seg, rest string, more bool) {
	for i := range len(s) {
		if isSlash(s[i]) {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// dots returns 1 or 2 for a single-dot or double-dot segment, else 0. A dot
// may be escaped.
func dots(seg string) int {
	n := 0
	for i := 0; i < len(seg); n++ {
		switch {
		case n == 2:
			return 0
		case seg[i] == '.':
			i++
		case len(seg)-i >= 3 && seg[i] == '%' && seg[i+1] == '2' && seg[i+2]|0x20 == 'e':
			i += 3
		default:
			return 0
		}
	}
	return n
}

// setQueryFragment reads s, which is empty or begins with "?" or "#".
func (r *record) setQueryFragment(s string) {
	r.query, r.hasQuery = "", false
	query := s
	if i := strings.IndexByte(s, '#'); i >= 0 {
		query, s = s[:i], s[i:]
	} else {
		s = ""
	}
	if query != "" {
		r.query, r.hasQuery = string(appendEncoded(nil, query[1:], &querySet)), true
	}
	r.setFragment(s)
}

// setFragment reads s, which is empty or begins with "#".
func (r *record) setFragment(s string) {
	if s != "" {
		r.fragment, r.hasFragment = string(appendEncoded(nil, s[1:], &fragmentSet)), true
	}
}
