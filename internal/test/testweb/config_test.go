package testweb

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestReadConfig(t *testing.T) {
	const text = `{
		"seed": 7, "hosts": 30, "pages": 5, "cross_host": 0.25, "grace": "50ms",
		"sitemaps": {"orphans": 3, "gzip": true},
		"faults": [
			{"kind": "hang", "hosts": "3-5", "count": 2, "for": "100ms"},
			{"kind": "over_rate", "per_second": 2.5, "retry_after": "2s", "date": true},
			{"kind": "hreflang", "hosts": "*/10", "languages": ["en", "pt-BR"]}
		]
	}`
	got, err := ReadConfig(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Seed: 7, Hosts: 30, Pages: 5, CrossHost: 0.25, Grace: 50 * time.Millisecond,
		Sitemaps: &Sitemaps{Orphans: 3, Gzip: true},
		Faults: []HostFault{
			{"3-5", &Hang{Where: Where{Count: 2}, For: 100 * time.Millisecond}},
			{"*", &OverRate{PerSecond: 2.5, Answer: Answer{RetryAfter: 2 * time.Second, Date: true}}},
			{"*/10", &Hreflang{Languages: []string{"en", "pt-BR"}}},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if err := got.withDefaults().validate(); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{
		`{"hots": 3}`, `{"faults": [{"kind": "hangs"}]}`, `{"faults": [{"kind": "hang", "fro": "1s"}]}`,
		`{"faults": [{"kind": "hang", "for": "soon"}]}`, `{"hosts": "many"}`, `[`,
	} {
		if _, err := ReadConfig(strings.NewReader(bad)); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	if c, err := ReadConfig(strings.NewReader("")); err != nil || !reflect.DeepEqual(c, Config{}) {
		t.Errorf("an empty config: %+v, %v", c, err)
	}
}

func TestParseFault(t *testing.T) {
	got, err := ParseFault("kind=drip hosts=1,4-6 chunk=3 interval=20ms all=true")
	want := HostFault{"1,4-6", &Drip{Where: Where{All: true}, Chunk: 3, Interval: 20 * time.Millisecond}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{"", "drip", "kind=drop", "kind=drip speed=3", "kind=drip chunk", "kind=drip chunk=x",
		"kind=drip chunk="} {
		if f, err := ParseFault(bad); err == nil {
			t.Errorf("%q is accepted as %+v", bad, f)
		}
	}
}

// TestFaultKinds checks that every fault can be named, and by one name only.
func TestFaultKinds(t *testing.T) {
	kinds := Kinds()
	slices.Sort(kinds)
	if len(slices.Compact(kinds)) != len(allFaults()) {
		t.Errorf("two faults share a name: %q", Kinds())
	}
	for _, k := range kinds {
		f, err := ParseFault("kind=" + k)
		if err != nil || f.Fault.Kind() != k || f.Hosts != "*" {
			t.Errorf("%s: %+v, %v", k, f, err)
		}
	}
}

func TestValidate(t *testing.T) {
	bad := Config{
		Hosts: -1, Pages: -1, PageSize: -1, Links: -1, CrossHost: 2, Grace: -1, HostName: "a b",
		Sitemaps: &Sitemaps{Orphans: -1, PerFile: 50_001, LastMod: "soon"}, Generation: 251,
		Faults: slices.Concat(OnAll(
			OverRate{}, OverConcurrency{}, RefuseFirst{Count: 256}, RefuseBursts{Every: 2, Length: 3},
			RefuseAll{Answer{Status: 200}},
			Slow{Delay: -1}, Capacity{Workers: -1}, Hang{For: -1}, Drip{Chunk: -1}, Reset{After: -1},
			Truncate{Where: Where{Count: -1}},
			Huge{Size: -1}, GzipBomb{Size: -1}, StatusPages{Status: 200}, StaleConns{Every: -1},
			RedirectChain{Count: -1},
			RedirectLoop{Length: -1}, Moved{To: 9}, SessionTrap{Items: -1}, ParameterTrap{Parameters: -1},
			LongURL{Length: 9},
			Files{Size: -1}, NoIndex{Count: -1}, Canonical{Count: -1}, NoFollow{Count: -1},
			Hreflang{Languages: []string{"<"}},
			CrawlDelay{Delay: -1}, Disallow{Count: -1}, Robots{Redirects: 6},
			Validators{Mode: "some"}, Down{Status: 404}, Down{Generations: []int{-1}},
		), []HostFault{{"*", nil}}),
	}
	_, err := Start(bad)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"hosts -1", "pages -1", "page_size -1", "links -1", "cross_host 2", "grace -1",
		"orphans -1", "per_file 50001", `"a b"`, `"soon"`, "generation 251"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not named", want)
		}
	}
	for i := range bad.Faults {
		one := Config{Hosts: 2, Faults: bad.Faults[i : i+1]}.withDefaults()
		if one.validate() == nil {
			t.Errorf("%+v is accepted", bad.Faults[i].Fault)
		}
	}
	for _, twice := range [][]HostFault{
		OnAll(Charsets{}, Charsets{}), OnAll(StatusPages{Status: 500}, StatusPages{}, StatusPages{Status: 404}),
		OnAll(Hreflang{Languages: []string{"en", "en"}}),
	} {
		if _, err := StartOn(Config{Faults: twice}, nil); err == nil || !strings.Contains(err.Error(), "already") {
			t.Errorf("the same URLs twice: %v", err)
		}
	}
	if _, err := StartOn(Config{ExplicitPort: true}, nil); err == nil {
		t.Error("an explicit port without a listener is accepted")
	}
	if _, err := Start(Config{Addr: "nowhere"}); err == nil {
		t.Error("an address that is none is accepted")
	}
}

func TestHostSet(t *testing.T) {
	for _, tt := range []struct {
		set  HostSet
		want []int // of ten
	}{
		{"*", []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}, {"3", []int{3}}, {"2-4", []int{2, 3, 4}}, {"*/4", []int{0, 4, 8}},
		{"1, 7-8,*/9", []int{0, 1, 7, 8, 9}}, {"10", nil}, {"5-4", nil}, {"4-10", nil}, {"", nil}, {"x", nil},
		{"*/0", nil}, {"*4", nil}, {"-1", nil}, {"1-", nil},
	} {
		if valid := tt.set.validate(10) == nil; valid != (tt.want != nil) {
			t.Errorf("%q: valid is %v", tt.set, valid)
			continue
		}
		var got []int
		for h := range 10 {
			if tt.want != nil && tt.set.contains(h) {
				got = append(got, h)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q holds %v, want %v", tt.set, got, tt.want)
		}
	}
}

func TestNaming(t *testing.T) {
	for _, tt := range []struct {
		pattern string
		hosts   int
		header  string
		want    int // -1 if there is no such host
	}{
		{"h%d.test", 10, "h3.test", 3}, {"h%d.test", 10, "H3.Test:8080", 3}, {"h%d.test", 10, "h03.test", -1},
		{"h%d.test", 10, "h10.test", -1}, {"h%d.test", 10, "h.test", -1}, {"h%d.test", 10, "", -1},
		{"h%d.test", 10, "h3.test.", -1},
		{"h%d.test", 10, "h99999999999.test", -1}, {"H%d.Test", 10, "h3.test", 3}, {"h%d", 3, "h2:80", 2},
		{"%d.test", 3, "2.test", 2},
		{"127.0.0.1", 1, "127.0.0.1:99", 0}, {"127.0.0.1", 1, "127.0.0.1", 0}, {"127.0.0.1", 1, "127.0.0.11", -1},
		{"localhost", 1, "localhost", 0},
	} {
		n, err := newNaming(tt.pattern, tt.hosts)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := n.lookup([]byte(tt.header))
		if !ok {
			got = -1
		}
		if got != tt.want {
			t.Errorf("%s: %q is %d, want %d", tt.pattern, tt.header, got, tt.want)
		}
	}
	for _, bad := range []string{"one", "%d %d", "h%d.t/x", "ü%d"} {
		if _, err := newNaming(bad, 2); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
