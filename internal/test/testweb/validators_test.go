package testweb

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// exchangeOnce asks host 0 for a URI with some header lines.
func exchangeOnce(t *testing.T, s *Server, method, uri string, header map[string]string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://h0.test"+uri, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	transport := &http.Transport{DialContext: s.Dial, DisableCompression: true, DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestConditions(t *testing.T) {
	const (
		later   = "Sat, 01 Jan 2000 00:00:00 GMT"
		earlier = "Wed, 01 Jan 1997 00:00:00 GMT"
		asc     = "Sat Jan  1 00:00:00 2000"
	)
	for _, tt := range []struct {
		mode        string
		match       string // TAG is the page's ETag, OPAQUE what is between its quotes
		since       string // DATE is the page's Last-Modified
		notModified bool
	}{
		{"", "TAG", "", true}, {"", "", "DATE", true}, {"", "TAG", earlier, true}, {"", `"other"`, later, false},
		{"", `"other"`, "DATE", false},
		{"", "", later, true}, {"", "", asc, true}, {"", "", earlier, false}, {"", "", "yesterday", false},
		{"", "*", "", true}, {"", "", "", false},
		{"etag", "TAG", "", true}, {"etag", "W/TAG", "", true}, {"etag", `"a", "b,c" , W/"d",TAG`, "", true},
		{"etag", `"a","b"`, "", false},
		{"etag", `"xOPAQUE"`, "", false}, {"etag", "OPAQUE", "", false}, {"etag", `"OPAQUE`, "", false},
		{"etag", "", later, false},
		{"weak", "TAG", "", true}, {"weak", `"OPAQUE"`, "", true}, {"weak", `W/"OPAQUE"`, "", true},
		{"date", "", "DATE", true}, {"date", `"any"`, "DATE", false}, {"date", "*", "", true},
		{"none", `"any"`, later, false}, {"none", "", later, false},
		{"bare_304", `"any"`, "", true}, {"bare_304", "", "", false}, {"always_304", `"any"`, "", true},
		{"always_304", "", earlier, true}, {"always_304", "", "", false},
		{"never_304", "TAG", "DATE", false}, {"never_304", "*", "", false},
		{"now", "", "DATE", false}, {"now", "", "Thu, 01 Jan 2099 00:00:00 GMT", false},
		{"future", "", "DATE", true}, {"future", "", later, false},
	} {
		t.Run(strings.Join([]string{tt.mode, tt.match, tt.since}, "/"), func(t *testing.T) {
			s := start(t, Config{Faults: OnAll(Validators{Mode: tt.mode})})
			first, _ := exchangeOnce(t, s, "GET", "/d1/p1.html", nil)
			tag, date := first.Header.Get("ETag"), first.Header.Get("Last-Modified")
			header := make(map[string]string)
			if tt.match != "" {
				opaque := strings.Trim(strings.TrimPrefix(tag, "W/"), `"`)
				header["If-None-Match"] = strings.NewReplacer("TAG", tag, "OPAQUE", opaque).Replace(tt.match)
			}
			if tt.since != "" {
				header["If-Modified-Since"] = strings.Replace(tt.since, "DATE", date, 1)
			}
			for _, method := range []string{"GET", "HEAD"} {
				resp, body := exchangeOnce(t, s, method, "/d1/p1.html", header)
				want := 200
				if tt.notModified {
					want = 304
				}
				if resp.StatusCode != want || (body != "") != (want == 200 && method == "GET") {
					t.Errorf("%s with %q: %d with %d bytes, want %d", method, header, resp.StatusCode, len(body), want)
				}
				if tt.mode == "bare_304" && want == 304 {
					if resp.Header.Get("ETag")+resp.Header.Get("Last-Modified") != "" {
						t.Errorf("a bare 304 has validators: %q", resp.Header)
					}
					continue
				}
				if resp.Header.Get("ETag") != tag || resp.Header.Get("Last-Modified") != date && tt.mode != "now" {
					t.Errorf("validators %q, first they were %q and %q", resp.Header, tag, date)
				}
			}
		})
	}
}

func TestValidatorHeaders(t *testing.T) {
	for _, tt := range []struct {
		mode, tag string // how the ETag begins
		dated     bool
	}{
		{"", `"`, true}, {"both", `"`, true}, {"etag", `"`, false}, {"weak", `W/"`, false}, {"gzip_suffix", `"`, true},
		{"date", "", true}, {"none", "", false},
		{"always_304", `"`, true}, {"bare_304", `"`, true}, {"never_304", `"`, true}, {"now", "", true},
		{"future", "", true}, {"unasked_304", "", false},
	} {
		s := start(t, Config{Faults: OnAll(Validators{Mode: tt.mode})})
		resp, _ := exchangeOnce(t, s, "GET", "/", nil)
		tag, date := resp.Header.Get("ETag"), resp.Header.Get("Last-Modified")
		if (tag != "") != (tt.tag != "") || !strings.HasPrefix(tag, tt.tag) || (date != "") != tt.dated {
			t.Errorf("%q: ETag %q, Last-Modified %q", tt.mode, tag, date)
		}
		at, err := http.ParseTime(date)
		answered, errDate := http.ParseTime(resp.Header.Get("Date"))
		if tt.dated && (err != nil || errDate != nil) {
			t.Errorf("%q: %v, %v", tt.mode, err, errDate)
		}
		switch age := answered.Sub(at); {
		case !tt.dated:
		case tt.mode == "now" && age != 0, tt.mode == "future" && age >= 0, tt.mode != "now" && tt.mode != "future" &&
			age < time.Minute:
			t.Errorf("%q: Last-Modified is %v before Date", tt.mode, age)
		}
	}
}

func TestGzipSuffix(t *testing.T) {
	s := start(t, Config{Faults: OnAll(Validators{Mode: "gzip_suffix"})})
	plain, page := exchangeOnce(t, s, "GET", "/", nil)
	zipped, body := exchangeOnce(t, s, "GET", "/", map[string]string{"Accept-Encoding": "br, gzip"})
	tag, suffixed := plain.Header.Get("ETag"), zipped.Header.Get("ETag")
	if suffixed != strings.TrimSuffix(tag, `"`)+`-gzip"` || zipped.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("ETag %s, compressed %s: %q", tag, suffixed, zipped.Header)
	}
	zipped.Body = io.NopCloser(strings.NewReader(body))
	r, err := decoder(zipped)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != page {
		t.Errorf("%d bytes after decompression, %v; the page has %d", len(got), err, len(page))
	}
	for match, want := range map[string]int{suffixed: 200, tag: 304, suffixed + ", " + tag: 304} {
		resp, _ := exchangeOnce(t, s, "GET", "/", map[string]string{"Accept-Encoding": "gzip", "If-None-Match": match})
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", match, resp.StatusCode, want)
		}
	}
	if b := s.HostStats(0); b.Bodies != 3 || b.BodyBytes != int64(len(page)+2*len(body)) || b.Conditional != 3 ||
		b.Status[304] != 2 {
		t.Errorf("%d bodies of %d bytes, %d conditional, statuses %v", b.Bodies, b.BodyBytes, b.Conditional, b.Status)
	}
}

func TestUnasked304(t *testing.T) {
	s := start(t, Config{Faults: OnAll(Validators{Mode: "unasked_304"})})
	check := func(want int) {
		t.Helper()
		if resp, _ := exchangeOnce(t, s, "GET", "/d1/p1.html", nil); resp.StatusCode != want {
			t.Errorf("generation %d: %d, want %d", s.Generation(), resp.StatusCode, want)
		}
	}
	check(200)
	for g := 1; g <= 2; g++ {
		if err := s.SetGeneration(g); err != nil {
			t.Fatal(err)
		}
		check(304)
		check(200)
	}
	if b := s.HostStats(0); b.Duplicates.Count != 0 {
		t.Errorf("%d duplicates, though each generation answered 200 once", b.Duplicates.Count)
	}
	check(200)
	if b := s.HostStats(0); b.Duplicates.Count != 1 {
		t.Errorf("%d duplicates, want 1", b.Duplicates.Count)
	}
}

// TestTwoConditionLines sends a list of ETags in two header lines, which mean the same as one.
func TestTwoConditionLines(t *testing.T) {
	s := start(t, Config{Log: true})
	resp, _ := exchangeOnce(t, s, "GET", "/", nil)
	const head = "GET / HTTP/1.1\r\nHost: h0.test\r\nConnection: close\r\n"
	for _, tags := range [][2]string{{`"a"`, resp.Header.Get("ETag")}, {resp.Header.Get("ETag"), `"a"`}} {
		got, err := talk(t, s, head+"If-None-Match: "+tags[0]+"\r\nif-none-match: "+tags[1]+"\r\n\r\n")
		if err != nil || !strings.HasPrefix(got, "HTTP/1.1 304 Not Modified\r\n") ||
			strings.Contains(got, "Content-") || !strings.HasSuffix(got, "\r\n\r\n") {
			t.Errorf("%q: %q, %v", tags, got, err)
		}
	}
	log := s.Log()
	if len(log) != 3 || log[0].Conditional || log[0].Body != 10<<10 || !log[1].Conditional || log[1].Body != 0 ||
		log[1].Status != 304 {
		t.Errorf("log %+v", log)
	}
}
