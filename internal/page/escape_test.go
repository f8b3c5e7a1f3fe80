package page

import (
	"encoding/json"
	"testing"
)

func TestEscapeControls(t *testing.T) {
	for text, want := range map[string]string{
		"plain, größer, 日本語 🎉":       "plain, größer, 日本語 🎉",
		"a\nb\tc":                    "a\nb\tc",
		"\x1b]0;title\x07":           `\u001b]0;title\u0007`,
		"\u009b31m":                  `\u009b31m`,
		"\x9b31m":                    `\ufffd31m`,
		"x\x7f\r":                    `x\u007f\u000d`,
		"exe.\u202egnp \u2066\u200f": `exe.\u202egnp \u2066\u200f`,
		"\ufffd":                     "\ufffd",
	} {
		if got := EscapeControls(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// Escapes in a line of JSON are for those who look at it: programs read the same text.
func TestLinesAreSafeToLookAt(t *testing.T) {
	title := "a\x1b[31m\u009b\u0085\u202e\u2066\u200e\x7f\u2028\ufeff日"
	line := NewTable().AppendJSON(nil, &Line{Facts: Facts{Title: title}})
	if got := AppendEscaped(nil, line); string(got) != string(line) {
		t.Errorf("not safe: %q", line)
	}
	var back struct{ Title string }
	if err := json.Unmarshal(line, &back); err != nil || back.Title != title {
		t.Errorf("read back as %q, %v", back.Title, err)
	}
}
