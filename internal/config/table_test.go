package config

import (
	"strings"
	"testing"
)

// Every setting that is a URL is shown without its password: the test finds them by what they accept.
func TestPasswordsAreHidden(t *testing.T) {
	const secret = "http://user:secret@proxy.test:3128/"
	s := Defaults(Polite)
	var urls []string
	for _, e := range s.Table() {
		v, ok := e.Value.(stringValue)
		if ok && v.Set("no URL") != nil && v.Set(secret) == nil {
			urls = append(urls, e.Name)
		}
	}
	if len(urls) < 4 {
		t.Fatalf("only %q are URLs", urls)
	}
	for _, e := range s.Redacted().Table() {
		if strings.Contains(e.Value.String(), "secret") {
			t.Errorf("%s is shown as %s", e.Name, e.Value)
		}
	}
	for _, e := range s.Table() {
		for _, name := range urls {
			if e.Name == name && e.Value.String() != secret {
				t.Errorf("Redacted changed %s itself to %s", name, e.Value)
			}
		}
	}
}
