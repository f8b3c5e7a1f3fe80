package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// texts are what a string field may hold: everything that JSON has to say in another way, and what only looks like it.
var texts = []string{
	"", "plain", `"quoted" \ back`, "\x00\x01\b\f\n\r\t\x1f\x7f", "<b>&amp;</b>", "é 東 \U0001f600",
	"\u2028\u2029\u2027", "\xff\xc3(\xe2\x80", "\ufffd", "/",
}

// fill gives v a random value of its type, often the zero one. A type that Line does not have yet ends the test.
func fill(t *testing.T, r *rand.Rand, v reflect.Value) {
	if r.IntN(3) == 0 {
		v.SetZero()
		return
	}
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(r.Int64N(1<<32), 0)))
		return
	}
	if v.Type() == reflect.TypeFor[weburl.URL]() {
		v.Set(reflect.ValueOf(weburl.MustCanonical(fmt.Sprintf("https://x.test/a?%d&\\", r.IntN(9)))))
		return
	}
	if v.Type() == reflect.TypeFor[Time]() {
		years := []int{1, 1969, 2026, 9999, 10_000}
		at := time.Date(years[r.IntN(len(years))], 1, 1, 0, 0, 0, 0, time.FixedZone("", r.IntN(7200)))
		v.Set(reflect.ValueOf(Time{at.Add(time.Duration(r.Int64N(int64(300 * 24 * time.Hour))))}))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(texts[r.IntN(len(texts))] + texts[r.IntN(len(texts))])
	case reflect.Int, reflect.Int64:
		v.SetInt(r.Int64() >> r.IntN(64))
	case reflect.Uint64:
		v.SetUint(r.Uint64() >> r.IntN(64))
	case reflect.Float64:
		v.SetFloat(float64(r.IntN(100_000)) / 1000)
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, r, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, r, v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
		for i := range v.Len() {
			fill(t, r, v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(4) {
			element := reflect.New(v.Type().Elem()).Elem()
			if element.Kind() == reflect.Interface { // extracted: a text or a list
				element.Set(reflect.ValueOf(texts[r.IntN(len(texts))]))
				if r.IntN(2) == 0 {
					element.Set(reflect.ValueOf(append([]string{}, texts[r.IntN(len(texts)):]...)))
				}
			} else {
				fill(t, r, element)
			}
			// names that are UTF-8: others would be sorted by what becomes of them
			v.SetMapIndex(reflect.ValueOf(texts[r.IntN(len(texts)-3)]), element)
		}
	default:
		t.Fatalf("a field of kind %v", v.Kind())
	}
}

// A line is what encoding/json makes of its fields and tags, with more characters escaped.
func TestAppendJSON(t *testing.T) {
	r, table := rand.New(rand.NewPCG(1, 2)), NewTable()
	for range 5000 {
		var l Line
		fill(t, r, reflect.ValueOf(&l).Elem())
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(&l); err != nil {
			t.Fatal(err)
		}
		if got := string(table.AppendJSON([]byte("x"), &l)) + "\n"; got != "x"+EscapeControls(want.String()) {
			t.Fatalf("line is\n%swant\n%s", got[1:], EscapeControls(want.String()))
		}
	}
}

// FuzzText compares the writing of texts with encoding/json's.
func FuzzText(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(text); err != nil {
			t.Fatal(err)
		}
		if got := string(AppendQuoted(nil, text)) + "\n"; got != EscapeControls(want.String()) {
			t.Errorf("%q is %s, want %s", text, got, EscapeControls(want.String()))
		}
	})
}

func BenchmarkAppendJSON(b *testing.B) {
	l := Line{SchemaVersion: SchemaVersion, URL: weburl.MustCanonical("https://x.test/"), Outcome: "ok", DiscoveredAt: Time{time.Unix(1, 0)},
		CrawledAt: Time{time.Unix(2, 0)}}
	f := full()
	l.SetFacts(f)
	var dst []byte
	table := NewTable()
	b.ReportAllocs()
	for b.Loop() {
		dst = table.AppendJSON(dst[:0], &l)
	}
}

// Every field has a kind, and its value is of the type of this kind, or nil if it is not known.
func TestTypedValues(t *testing.T) {
	table := NewTable()
	var names []string
	var kinds []Kind
	table.Typed(func(name string, kind Kind) { names, kinds = append(names, name), append(kinds, kind) })
	l := &Line{URL: weburl.MustCanonical("https://x.test/"), Depth: 2}
	l.SetFacts(full())
	known := table.AppendValues(nil, l)
	empty := table.AppendValues(nil, &Line{})
	if len(known) != len(names) || len(empty) != len(names) {
		t.Fatalf("%d names, %d and %d values", len(names), len(known), len(empty))
	}
	for i, v := range known {
		switch v.(type) {
		case nil:
		case string:
			if kinds[i] != Text && kinds[i] != JSON {
				t.Errorf("%s is a text", names[i])
			}
		default:
			if want := map[Kind]string{Number: "int64", Truth: "bool", Moment: "time.Time",
				Texts: "[]string"}[kinds[i]]; fmt.Sprintf("%T", v) != want {
				t.Errorf("%s is %T, want %s", names[i], v, want)
			}
		}
	}
	value := func(name string) any { return known[slices.Index(names, name)] }
	for name, want := range map[string]any{"url": "https://x.test/", "depth": int64(2), "h1_count": int64(2),
		"content_length": int64(1234), "response_time_ms": int64(1), "content_hash": "00000000deadbeef",
		"last_modified": full().LastModified.Time, "indexable": false, "json_ld_types": []string{"Article", "Person"},
		"open_graph": `{"og:title":"o"}`, "in_sitemap": false, "stale": nil} {
		if !reflect.DeepEqual(value(name), want) {
			t.Errorf("%s is %#v, want %#v", name, value(name), want)
		}
	}
	if slices.Contains(names, "schema_version") || slices.Contains(names, "extracted") {
		t.Errorf("fields %q", names)
	}
}
