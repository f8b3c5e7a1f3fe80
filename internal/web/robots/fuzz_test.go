package robots

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzMatch holds the compiled rules to the plainest reading of the RFC: try
// every rule of the agent's groups on the path and keep the heaviest.
func FuzzMatch(f *testing.F) {
	f.Add([]byte("User-agent: *\nDisallow: /a\nAllow: /a/*b$\n"), "/a/xb")
	f.Add([]byte("\xef\xbbuseragent a\rdisalow /\r\nallow /x%2a*%24\n"), "/x**$")
	f.Add([]byte("user-agent: a\nallow: /q/index.htm\nallow:/q?u=%3A%2f\ndisallow:/q"), "/q?u=:/")
	f.Add([]byte("user-agent: a\ndisallow: /**a**b$\ncrawl-delay: .5"), "/ab%%34%31")
	f.Fuzz(func(t *testing.T, body []byte, path string) {
		if len(path) > 4096 {
			return
		}
		file := Parse(body)
		r := file.Agent("a")
		got := r.Match(path)
		if want := slowMatch(file, "a", path); got.Allowed != want {
			t.Fatalf("Match(%q) = %+v, want allowed %v", path, got, want)
		}
		if got.Rule != "" && !bytes.Contains(narrow(body), []byte(got.Rule)) {
			t.Fatalf("rule %q is not in the file", got.Rule)
		}
	})
}

func slowMatch(f *File, token, path string) bool {
	if path == "" {
		path = "/"
	}
	if path == "/robots.txt" {
		return true
	}
	rules, _, found := f.collect(token)
	if !found {
		rules, _, _ = f.collect("*")
	}
	norm := string(appendNormal(nil, path, false))
	paths := []string{norm, queryForm(norm)}
	heaviest, allowed := 0, true
	for _, l := range rules {
		allow := l.key == keyAllow
		pattern := normalizePattern(l.value)
		patterns := []string{pattern, queryForm(pattern)}
		if i := strings.LastIndexByte(pattern, '/'); allow && i >= 0 && strings.HasPrefix(pattern[i:], "/index.htm") {
			patterns = append(patterns, pattern[:i+1]+"$")
		}
		for _, p := range patterns {
			for _, u := range paths {
				if slowGlob(p, u) && (len(p) > heaviest || len(p) == heaviest && allow) {
					heaviest, allowed = len(p), allow
				}
			}
		}
	}
	return allowed
}

// slowGlob keeps the set of path positions that the pattern so far can end at.
func slowGlob(pattern, path string) bool {
	at := make([]bool, len(path)+1)
	at[0] = true
	for i := 0; i < len(pattern); i++ {
		next := make([]bool, len(path)+1)
		switch c := pattern[i]; {
		case c == '$' && i == len(pattern)-1:
			next[len(path)] = at[len(path)]
		case c == '*':
			seen := false
			for j := range at {
				seen = seen || at[j]
				next[j] = seen
			}
		default:
			for j := 0; j < len(path); j++ {
				next[j+1] = at[j] && path[j] == c
			}
		}
		at = next
	}
	for _, ok := range at {
		if ok {
			return true
		}
	}
	return false
}
