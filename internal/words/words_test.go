package words

import "testing"

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0 URLs", 1: "1 URL", 2: "2 URLs", 1234567: "1,234,567 URLs"} {
		if got := Count(n, "URL"); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestCounts(t *testing.T) {
	counts := map[string]int64{"ok": 1234, "redirect": 5, "http_error": 5}
	if got, want := Counts(counts, ByCount(counts)), "ok 1,234, http_error 5, redirect 5"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
