package api

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/crawl/datadir"
)

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for _, c := range []struct {
		text  string
		lines int
		want  string
	}{
		{"", 5, ""},
		{"a\n", 1, "a\n"},
		{"a\nb\nc\n", 2, "b\nc\n"},
		{"a\nb\nc\n", 9, "a\nb\nc\n"},
		{"a\nb\nunfinished", 2, "b\nunfinished"},
		{strings.Repeat("x", 5<<20) + "\nlast\n", 3, "last\n"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tail(f, c.lines)
		if err != nil || string(got) != c.want {
			t.Errorf("%d lines of %.20q: %q, %v", c.lines, c.text, got, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A search for links that takes too long shows what it has found, and says so.
func TestLinksOfAPage(t *testing.T) {
	dir := datadir.Dir(t.TempDir())
	if in, _, err := linksOf(t.Context(), dir, "http://a.test/"); in != nil || err != nil {
		t.Errorf("without a file: %+v, %v", in, err)
	}
	text := `{"from":"http://a.test/","to":"http://a.test/b"}` + "\n" + `{"from":"http://a.test/b","to":"http://a.test/","text":"home"}` + "\n"
	if err := os.WriteFile(dir.Links(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	in, out, err := linksOf(t.Context(), dir, "http://a.test/")
	if err != nil || in.Total != 1 || in.Items[0] != (pageLink{URL: "http://a.test/b", Text: "home"}) || out.Total != 1 || in.Cut {
		t.Errorf("%+v, %+v, %v", in, out, err)
	}
	over, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if in, out, err := linksOf(over, dir, "http://a.test/"); err != nil || !in.Cut || !out.Cut {
		t.Errorf("too late: %+v, %+v, %v", in, out, err)
	}
}
