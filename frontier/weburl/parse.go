package weburl

import (
	"strconv"
	"strings"
)

// parse is the URL Standard's basic URL parser for http and https. Its state
// machine walks the input once; here each state that matters is a cut of the
// input instead, in the same order. Without a base, base is the zero record.
func (r *record) parse(base *record, raw string) error {
	if len(base.path)+len(base.query)+len(raw) > maxLen {
		return ErrLength
	}
	in := removeTabNewline(trimControl(raw))
	scheme, rest, ok := cutScheme(in)
	switch {
	case !ok && base.scheme == "":
		return ErrRelative
	case !ok:
		return r.parseRelative(base, in)
	case scheme != "http" && scheme != "https":
		return ErrScheme
	case base.scheme == scheme && !strings.HasPrefix(rest, "//"):
		return r.parseRelative(base, rest)
	default:
		return r.parseAuthority(scheme, trimSlashes(rest))
	}
}

// trimControl removes C0 controls and spaces from both ends.
func trimControl(s string) string {
	for len(s) > 0 && s[0] <= ' ' {
		s = s[1:]
	}
	for len(s) > 0 && s[len(s)-1] <= ' ' {
		s = s[:len(s)-1]
	}
	return s
}

func removeTabNewline(s string) string {
	if strings.IndexByte(s, '\t') < 0 && strings.IndexByte(s, '\n') < 0 && strings.IndexByte(s, '\r') < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		if c := s[i]; c != '\t' && c != '\n' && c != '\r' {
			out = append(out, c)
		}
	}
	return string(out)
}

// cutScheme cuts a scheme and its colon off s. The scheme is in lower case if it is http or https; any other is
// returned as it is.
func cutScheme(s string) (scheme, rest string, ok bool) {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		case i > 0 && c == ':':
			scheme, rest = s[:i], s[i+1:]
			switch {
			case strings.EqualFold(scheme, "http"):
				scheme = "http"
			case strings.EqualFold(scheme, "https"):
				scheme = "https"
			}
			return scheme, rest, true
		default:
			return "", s, false
		}
	}
	return "", s, false
}

func isSlash(c byte) bool { return c == '/' || c == '\\' }

func trimSlashes(s string) string {
	for len(s) > 0 && isSlash(s[0]) {
		s = s[1:]
	}
	return s
}

// parseRelative reads a reference without a scheme of its own, or with base's
// scheme and no "//".
func (r *record) parseRelative(base *record, s string) error {
	if len(s) > 1 && isSlash(s[0]) && isSlash(s[1]) {
		return r.parseAuthority(base.scheme, trimSlashes(s))
	}
	*r = *base
	r.fragment, r.hasFragment = "", false
	switch {
	case s == "" || s[0] == '#':
		r.setFragment(s)
	case s[0] == '?':
		r.setQueryFragment(s)
	case isSlash(s[0]):
		r.setPathQueryFragment("", s[1:])
	default:
		r.setPathQueryFragment(r.path[:strings.LastIndexByte(r.path, '/')], s)
	}
	return nil
}

// parseAuthority reads what follows "scheme://".
func (r *record) parseAuthority(scheme, s string) (err error) {
	r.scheme = scheme
	end := 0
	for end < len(s) && !isSlash(s[end]) && s[end] != '?' && s[end] != '#' {
		end++
	}
	authority, rest := s[:end], s[end:]
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, pass, _ := strings.Cut(authority[:at], ":")
		r.user = string(appendEncoded(nil, user, &userinfoSet))
		r.pass = string(appendEncoded(nil, pass, &userinfoSet))
		authority = authority[at+1:]
	}
	host, port := cutPort(authority)
	if r.host, err = parseHost(host); err != nil {
		return err
	}
	if r.port, err = parsePort(scheme, port); err != nil {
		return err
	}
	if rest != "" && isSlash(rest[0]) {
		rest = rest[1:]
	}
	r.setPathQueryFragment("", rest)
	return nil
}

// cutPort splits host and port at the first colon outside brackets.
func cutPort(s string) (host, port string) {
	inside := false
	for i := range len(s) {
		switch s[i] {
		case '[':
			inside = true
		case ']':
			inside = false
		case ':':
			if !inside {
				return s[:i], s[i+1:]
			}
		}
	}
	return s, ""
}

func parsePort(scheme, s string) (string, error) {
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return "", ErrPort
		}
		if n = n*10 + int(s[i]-'0'); n > 65535 {
			return "", ErrPort
		}
	}
	if s == "" || scheme == "http" && n == 80 || scheme == "https" && n == 443 {
		return "", nil
	}
	return strconv.Itoa(n), nil
}
