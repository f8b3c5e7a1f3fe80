package traps

import (
	"strings"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// A component is a part of a URL that may be a parameter: the value of a query parameter, that of
// a path parameter (;name=value), a path segment, or all values of a query together.
type component struct {
	subject    uint64 // hash of host, kind and name; a segment is named by the path before it, a query by its names
	start, end int    // of the value in the URL's text
	rest       uint64 // hash of the URL without the value; set by Read
}

// maxComponents is how many components of a URL are looked at.
const maxComponents = 8

// appendComponents appends the components of u: the values of the query, then path parameters, then the whole query if
// it has several values, then segments from the left. The last segment is not a component: its values are the pages of
// a directory. The whole query is one because a site may put two new values into each link.
func (h hasher) appendComponents(list []component, u weburl.URL) []component {
	text, host := u.String(), u.Host()
	pathAt := len(u.Origin())
	path, query := u.Path(), u.Query()
	add := func(kind, name string, start, end int) {
		if len(list) < maxComponents && end > start {
			list = append(list, component{subject: h.sum(host, kind, name), start: start, end: end})
		}
	}
	several := strings.ContainsAny(query, "&;")
	var names strings.Builder // of all parameters, if the query has several
	for at := len(text) - len(query); query != ""; {
		pair, rest := cutAny(query, "&;")
		if name, value, named := strings.Cut(pair, "="); named {
			add("?", name, at+len(name)+1, at+len(name)+1+len(value))
			if several {
				names.WriteString(name)
				names.WriteByte('&')
			}
		} else {
			add("?", "", at, at+len(pair))
		}
		at += len(query) - len(rest)
		query = rest
	}
	inQuery := len(list)
	for at := 0; at < len(path); {
		i := strings.IndexByte(path[at:], ';')
		if i < 0 {
			break
		}
		at += i + 1
		end := at + indexAny(path[at:], ";/")
		if name, _, named := strings.Cut(path[at:end], "="); named {
			add(";", name, pathAt+at+len(name)+1, pathAt+end)
		} else {
			add(";", "", pathAt+at, pathAt+end)
		}
		at = end
	}
	if inQuery > 1 {
		add("?*", names.String(), list[0].start, list[inQuery-1].end)
	}
	for at := 0; at < len(path); {
		i := strings.IndexByte(path[at:], '/')
		if i < 0 {
			break
		}
		add("/", path[:at], pathAt+at, pathAt+at+i)
		at += i + 1
	}
	return list
}

// indexAny returns the index of the first of two characters, or the length of the text if it has neither.
func indexAny(text, chars string) int {
	for i := range len(text) {
		if text[i] == chars[0] || text[i] == chars[1] {
			return i
		}
	}
	return len(text)
}

// cutAny cuts a text at the first of two characters. The second part is empty if the text has neither.
func cutAny(text, chars string) (before, after string) {
	i := indexAny(text, chars)
	return text[:i], text[min(i+1, len(text)):]
}
