package config

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// Every setting that is a number has a range, both ends of which it takes. A value beyond an end is refused by its
// name, and all at once.
func TestEveryNumberHasARange(t *testing.T) {
	layer := Layer{}
	want := map[string]string{} // by name: what the refusal says
	for _, e := range Defaults(Polite).Table() {
		var ends, beyond []string
		var said string
		usual, _ := rangeOf(e.Value)
		switch v := e.Value.(type) {
		case numberValue[int]:
			ends, beyond, said = []string{fmt.Sprint(v.min), fmt.Sprint(v.max)},
				[]string{fmt.Sprint(v.min - 1), fmt.Sprint(v.max + 1), fmt.Sprint(uint64(math.MaxUint64))},
				fmt.Sprintf("is not between %d and %d", v.min, v.max)
		case numberValue[float64]:
			ends, beyond, said = []string{fmt.Sprint(v.min), fmt.Sprint(v.max)},
				[]string{fmt.Sprint(v.min / 2), fmt.Sprint(v.max * 2), "NaN"},
				fmt.Sprintf("is not between %v and %v", v.min, v.max)
		case numberValue[time.Duration]:
			ends, beyond, said = []string{v.min.String(), v.max.String()},
				[]string{(v.min - 1).String(), (v.max + 1).String()},
				fmt.Sprintf("is not between %v and %v", v.min, v.max)
		case numberValue[int64]:
			ends, beyond, said = []string{fmt.Sprint(v.min), fmt.Sprint(v.max)},
				[]string{fmt.Sprint(v.min - 1), fmt.Sprint(v.max + 1)}, "is not between 1 and 1048576MiB"
		default:
			switch v.JSON().(type) {
			case int, int64, float64:
				t.Errorf("%s is a number without a range", e.Name)
			}
			continue
		}
		for _, text := range ends {
			if err := e.Value.Set(text); err != nil {
				t.Errorf("%s: %v", e.Name, err)
			}
		}
		for _, text := range beyond {
			if err := e.Value.Set(text); err == nil || !strings.Contains(err.Error(), text) ||
				!strings.Contains(err.Error(), said) {
				t.Errorf("%s %s: %v, want %q", e.Name, text, err, said)
			}
		}
		_, r := rangeOf(e.Value)
		if r == nil || r.AtMost == nil {
			t.Errorf("%s has no range for users", e.Name)
		}
		if e.Free != nil && e.Name != "timeout" && usual != e.Free.AtLeast &&
			(e.Free.AtMost == nil || usual != *e.Free.AtMost) {
			t.Errorf("%s is %v by default, and free for %v", e.Name, usual, e.Free)
		}
		want[e.Name], layer[e.Name] = said, Given{Texts: beyond[1:2], From: "flag --" + e.Name}
	}
	_, err := Load(layer)
	if len(want) < 31 || err == nil {
		t.Fatalf("%d numbers, error %v", len(want), err)
	}
	for name, said := range want {
		if !strings.Contains(err.Error(), "flag --"+name+": ") || !strings.Contains(err.Error(), said) {
			t.Errorf("the error does not say %q of --%s: %v", said, name, err)
		}
	}
}

// A value that a crawl was made with before it had a bound is named, and can be replaced.
func TestStoredValueOutOfRange(t *testing.T) {
	stored := Defaults(Polite).Stored()
	stored["max-retries"], stored["max-host-failures"] = []string{"1000"}, []string{"300"}
	if _, err := Resume(stored, nil, flags("max-retries", "9")); err == nil ||
		strings.Contains(err.Error(), "max-retries") || !strings.Contains(err.Error(),
		"the crawl's max-host-failures: 300 is not between") {
		t.Errorf("got %v", err)
	}
	loaded, err := Resume(stored, nil, flags("max-retries", "9", "max-host-failures", "200"))
	if err != nil || loaded.Settings.MaxRetries != 9 || loaded.Settings.MaxHostFailures != 200 {
		t.Errorf("got %v, %v", loaded, err)
	}
}

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
