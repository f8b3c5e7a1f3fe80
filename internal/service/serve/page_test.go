package serve

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/results/pageindex"
)

// The search for the links of a page ends with its time, and says so.
func TestLinksOf(t *testing.T) {
	t.Parallel()
	dir, url := datadir.Dir(t.TempDir()), "http://a.test/"
	if _, _, err := linksOf(t.Context(), dir, url); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	text := `{"from":"http://a.test/","to":"http://a.test/b"}` + "\n" +
		strings.Repeat(`{"from":"http://a.test/b","to":"http://a.test/","text":"home"}`+"\n", 30_000)
	if err := os.WriteFile(dir.Links(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	in, out, err := linksOf(t.Context(), dir, url)
	if err != nil || in.Total != 30_000 || len(in.Items) != mostLinks ||
		in.Items[0] != (link{URL: "http://a.test/b", Text: "home"}) || out.Total != 1 || in.Cut {
		t.Errorf("%+v, %+v, %v", in, out, err)
	}
	over, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	if in, out, err := linksOf(over, dir, url); err != nil || !in.Cut || !out.Cut {
		t.Errorf("too late: %+v, %+v, %v", in, out, err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, _, err := linksOf(gone, dir, url); !errors.Is(err, context.Canceled) {
		t.Errorf("the search goes on without the client: %v", err)
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	to := map[string]string{"a": "b", "b": "c", "c": "", "x": "y", "y": "z", "z": "y", "self": "self", "out": "gone"}
	find := func(url string) ([]byte, error) {
		if next, known := to[url]; known {
			return []byte(`{"redirect_to":"` + next + `"}`), nil
		}
		return nil, nil
	}
	for url, want := range map[string][]string{"a": {"b", "c"}, "c": nil, "x": {"y", "z", "y"}, "self": {"self"},
		"out": {"gone"}} {
		line, _ := find(url)
		hops, err := redirectsOf(url, line, find)
		var got []string
		for _, h := range hops {
			got = append(got, h.URL)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", url, got, err, want)
		}
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, fault string }{
		{"outcome", "ok,timeout", ""}, {"outcome", "ok,x", "there is no outcome x"}, {"change", "new", ""},
		{"change", "x", "there is no change x"},
		{"problem", "any", ""}, {"problem", "x", "there is no problem x"}, {"status", "404", ""}, {"status", "4xx", ""},
		{"status", "none", ""}, {"status", "999", ""},
		{"status", "6xx", "must be a status code such as 404, a class such as 4xx, or none"},
		{"status", "12", "must be a status code such as 404, a class such as 4xx, or none"},
		{"depth", "2", ""}, {"depth", "-1", "must be a whole number such as 2"}, {"indexable", "false", ""},
		{"indexable", "maybe", "must be true or false"},
	} {
		got := ""
		f := readFilter(func(name string) string {
			if name == c.name {
				return c.text
			}
			return ""
		}, func(name, detail string) { got += name + ": " + detail })
		if want := c.name + ": " + c.fault; c.fault != "" && got != want || c.fault == "" &&
			(got != "" || reflect.DeepEqual(f, pageindex.Filter{})) {
			t.Errorf("%s=%s: %q, %+v", c.name, c.text, got, f)
		}
	}
}
