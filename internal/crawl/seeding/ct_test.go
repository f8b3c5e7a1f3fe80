package seeding

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// exists knows every name but some.
type exists map[string]string // host → scheme; "" does not exist, "?" is a failure of DNS

func (e exists) Scheme(_ context.Context, host string) (string, error) {
	scheme, special := e[host]
	switch {
	case !special:
		return "https", nil
	case scheme == "?":
		return "", errors.New("no server answers")
	}
	return scheme, nil
}

// crtsh is an answer of the form that crt.sh gives.
const crtsh = `[
{"issuer_ca_id":183267,"issuer_name":"C=US, O=Let's Encrypt, CN=R3","common_name":"www.example.test","name_value":"example.test\nwww.example.test","id":8123456789,"entry_timestamp":"2023-11-06T10:21:33.123","not_before":"2023-11-06T09:21:32","not_after":"2024-02-04T09:21:31","serial_number":"03a1","result_count":2},
{"issuer_ca_id":1,"issuer_name":"O=x","common_name":null,"name_value":"*.example.test\n*.dev.example.test\nMAIL.Example.Test.","id":2},
{"issuer_ca_id":1,"issuer_name":"O=x","common_name":"other.test","name_value":"admin@example.test\nnotexample.test\nexample.test.evil.test\nwww.example.test","id":3},
{"issuer_ca_id":1,"issuer_name":"O=x","common_name":"gone.example.test","name_value":"old.example.test\nplain.example.test\nb\u00fccher.example.test\na b.example.test\nx*y.example.test","id":4}
]`

func TestCT(t *testing.T) {
	var query string
	base, f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, crtsh)
	})
	s := hastyCT(t, base+"/", exists{"gone.example.test": "", "old.example.test": "?", "plain.example.test": "http"}, f)
	var got []string
	sum, err := s.URLs(t.Context(), "example.test", collect(&got))
	if err == nil || !strings.Contains(err.Error(), "DNS gave no answer for 1 of 8 names") {
		t.Errorf("error %v", err)
	}
	if query != "q=%25.example.test&output=json" {
		t.Errorf("asked with %q", query)
	}
	want := []string{
		"https://example.test/", "https://www.example.test/", "https://dev.example.test/", "https://mail.example.test/",
		"http://plain.example.test/", "https://xn--bcher-kva.example.test/",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if sum != (summary{Rows: 4, Found: 6, Absent: 1, Failed: 1}) {
		t.Errorf("summary %+v", sum)
	}
}

// An answer of many names comes in batches, in order, each name once.
func TestCTBatches(t *testing.T) {
	var text strings.Builder
	text.WriteString("[")
	for i := range 3 * nameBatch {
		fmt.Fprintf(&text, `{"name_value":"h%d.example.test\nh%d.example.test"},`, i, i/2)
	}
	base, f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, strings.TrimSuffix(text.String(), ",")+"]")
	})
	s := hastyCT(t, base, exists{}, f)
	batches, n := 0, 0
	sum, err := s.URLs(t.Context(), "example.test", func(_ context.Context, urls []weburl.URL) error {
		batches++
		for _, u := range urls {
			if want := fmt.Sprintf("https://h%d.example.test/", n); u.String() != want {
				t.Fatalf("got %s, want %s", u, want)
			}
			n++
		}
		return nil
	})
	if err != nil || batches != 3 || n != 3*nameBatch || sum.Found != int64(n) {
		t.Errorf("%d names in %d batches, %+v, %v", n, batches, sum, err)
	}
}

// What an answer named before it broke off for good is handed over, and the error is returned.
func TestCTBrokenAnswer(t *testing.T) {
	base, f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `[{"name_value":"a.example.test"},{"name_va`)
	})
	s := hastyCT(t, base, exists{}, f)
	var got []string
	if _, err := s.URLs(t.Context(), "example.test", collect(&got)); !errors.Is(err, errShape) ||
		!slices.Equal(got, []string{"https://a.example.test/"}) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestSinkErrorIsReturnedAtOnce(t *testing.T) {
	full := errors.New("disk full")
	asked := 0
	base, f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		fmt.Fprint(w, crtsh)
	})
	s := hastyCT(t, base, exists{}, f)
	if _, err := s.URLs(t.Context(), "example.test", func(context.Context,
		[]weburl.URL) error {
		return full
	}); !errors.Is(err, full) || asked != 1 {
		t.Errorf("%v after %d requests", err, asked)
	}
}

// When DNS answers for no name at all, the source does not wait for it to fail name by name.
func TestCTWithoutDNS(t *testing.T) {
	var text strings.Builder
	text.WriteString("[")
	down := exists{}
	for i := range 3 * nameBatch {
		fmt.Fprintf(&text, `{"name_value":"h%d.example.test"},`, i)
		down[fmt.Sprintf("h%d.example.test", i)] = "?"
	}
	base, f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, strings.TrimSuffix(text.String(), ",")+"]")
	})
	s := hastyCT(t, base, down, f)
	sum, err := s.URLs(t.Context(), "example.test", func(context.Context, []weburl.URL) error {
		t.Error("a name without an address was handed over")
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "DNS gave no answer") || sum.Failed != nameBatch {
		t.Errorf("%+v, %v", sum, err)
	}
}
