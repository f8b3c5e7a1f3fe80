package fetch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// readCookies writes a cookie file and reads it.
func readCookies(t *testing.T, lines ...string) (*Cookies, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cookies.txt")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	jar, err := ReadCookieFile(path)
	return &Cookies{File: jar}, err
}

// Cookies of a file go to the hosts, paths and schemes that the file says, until they expire, and to no other port than
// the usual ones and those of the start URLs. Given cookies go to the origins of the start URLs.
func TestCookiesStayWithTheirHosts(t *testing.T) {
	later := time.Now().Add(time.Hour).Unix()
	c, err := readCookies(t, "# Netscape HTTP Cookie File", "",
		fmt.Sprintf(".example.com\tTRUE\t/\tFALSE\t%d\tall\t1", later),
		fmt.Sprintf("example.com\tFALSE\t/\tTRUE\t%d.5\tsafe\t2\r", later),
		"#HttpOnly_www.example.com\tFALSE\t/in\tFALSE\t0\tsession\tx=y z",
		fmt.Sprintf("example.com\tFALSE\t/\tFALSE\t%d\told\t4", time.Now().Unix()-1),
		"co.uk\tTRUE\t/\tFALSE\t0\tsuffix\t5", "127.0.0.1\tFALSE\t/\tFALSE\t0\taddress\t6",
		"localhost\tTRUE\t/\tFALSE\t0\tlocal\t7", "[::1]\tFALSE\t/\tTRUE\t0\tsix\t10",
		"example.com\tFALSE\t/\tFALSE\t0\tempty")
	if err != nil {
		t.Fatal(err)
	}
	if c.Given, err = ParseCookies(`given=8; quoted="9"`); err != nil {
		t.Fatal(err)
	}
	c.To.AddURL(mustURL(t, "https://start.example.com:8443/"))
	for url, want := range map[string]string{
		"https://example.com/":               "all=1; empty=; safe=2",
		"http://example.com/":                "all=1; empty=",
		"https://www.example.com/":           "all=1",
		"http://www.example.com/in/side":     "all=1; session=x=y z",
		"http://www.example.com/inside":      "all=1",
		"https://example.com:8443/":          "",
		"http://example.com:443/":            "",
		"https://notexample.com/":            "",
		"https://example.com.evil.test/":     "",
		"https://start.example.com:8443/":    `all=1; given=8; quoted="9"`,
		"http://start.example.com:8443/":     "",
		"https://start.example.com/":         "all=1",
		"https://sub.start.example.com:8443": "",
		"http://a.co.uk/":                    "",
		"http://co.uk/":                      "suffix=5",
		"http://127.0.0.1/":                  "address=6",
		"http://[::1]/":                      "six=10",
		"http://a.localhost/":                "",
	} {
		got := slices.Sorted(strings.SplitSeq(c.header(mustURL(t, url)), "; "))
		if strings.Join(got, "; ") != want {
			t.Errorf("%s gets %q, want %q", url, got, want)
		}
	}
}

// Cookies that cannot be read are refused without being repeated.
func TestBadCookies(t *testing.T) {
	for line, want := range map[string]string{
		"s3cret": "line 1", "s3cret=x; b=y": "line 1", "": "no cookies", "# only": "no cookies",
		"a.test\tTRUE\t/\tFALSE\tnever\tname\ts3cret":     "not a time",
		"a b\tTRUE\t/\tFALSE\t0\tname\ts3cret":            "not a domain",
		"a.test/x\tTRUE\t/\tFALSE\t0\tname\ts3cret":       "not a domain",
		"a.test\tTRUE\t/\tFALSE\t0\tna me\ts3cret":        "cannot have",
		"a.test\tTRUE\t/\tFALSE\t0\tname\ts3cret\x01":     "cannot have",
		"a.test\tTRUE\t/\tFALSE\t1000000\tname\ts3cret":   "have expired",
		`[{"name": "a", "value": "s3cret", "domain":""}]`: "seven fields",
	} {
		if _, err := readCookies(t, line); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
	for _, text := range []string{"s3cret", "s3 cret=1", "a=s3cret\n", "a=1; s3cret"} {
		if _, err := ParseCookies(text); err == nil || strings.Contains(err.Error(), "cret") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
