package export

import "testing"

func TestCSVCellsAreNoFormulas(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain": "plain", "a=1": "a=1", "http://a.test/": "http://a.test/", "größer": "größer",
		`=HYPERLINK("http://evil.test")`: `'=HYPERLINK("http://evil.test")`, "+1": "'+1", "-1": "'-1",
		"@SUM(A1)": "'@SUM(A1)",
		"\t=1":     "'\t=1", "\r=1": `'\u000d=1`, "＝1": "'＝1", "a\x1b[2J": `a\u001b[2J`, "a\u202eb": `a\u202eb`,
	} {
		if got := csvCell(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
