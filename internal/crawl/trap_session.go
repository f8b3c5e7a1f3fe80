package crawl

import "strings"

// hasSession finds a session identifier, by a name that means nothing else and a value that looks like one.
func hasSession(path, query string) bool {
	if strings.Contains(path, "/(S(") {
		return true
	}
	if _, param, ok := strings.Cut(path, ";"); ok && sessionPair(param) {
		return true
	}
	for query != "" {
		var pair string
		pair, query, _ = cutAny(query, "&;")
		if sessionPair(pair) {
			return true
		}
	}
	return false
}

func sessionPair(pair string) bool {
	name, value, _ := strings.Cut(pair, "=")
	name = strings.ToLower(name)
	switch name {
	case "jsessionid", "phpsessid", "sessionid", "session_id", "sessid", "cftoken", "zenid", "oscsid", "asp.net_sessionid":
		return looksRandom(value, 8)
	case "sid", "session", "s_id":
		// These are also short for a shop, a school term and a server.
		return looksRandom(value, 16) && !strings.ContainsAny(value, "-_.") && strings.Trim(value, "0123456789") != ""
	}
	return strings.HasPrefix(name, "aspsessionid") && looksRandom(value, 8)
}

// looksRandom wants a token of letters and digits mixed, or of many digits: sid=3 and sid=summer are honest.
func looksRandom(value string, least int) bool {
	if len(value) < least {
		return false
	}
	digits := 0
	for i := range len(value) {
		switch c := value[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-', c == '_', c == '.', c == '!':
		default:
			return false
		}
	}
	return digits > 0
}

func cutAny(text, seps string) (before, after string, found bool) {
	if i := strings.IndexAny(text, seps); i >= 0 {
		return text[:i], text[i+1:], true
	}
	return text, "", false
}
