package sitemap

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/sitemaptest"
)

func TestConformance(t *testing.T) {
	dir := sitemaptest.Dir(t)
	cases, err := os.Open(filepath.Join(dir, "cases.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer cases.Close()
	lines := bufio.NewScanner(cases)
	lines.Buffer(nil, 1<<20)
	rows := 0
	for lines.Scan() {
		var c struct {
			Name, File, Kind string
			ContentType      string `json:"content_type"`
			URLs             []string
			LastMod          map[string]string
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		rows++
		t.Run(c.Name+"/"+strings.ReplaceAll(c.ContentType, "/", "_"), func(t *testing.T) {
			file, err := os.Open(filepath.Join(dir, c.File))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			format, got, err := readAll(file)
			if err != nil || string(format) != c.Kind || !reflect.DeepEqual(locs(got), c.URLs) {
				t.Errorf("got %s %q %v, want %s %q", format, locs(got), err, c.Kind, c.URLs)
			}
			for _, e := range got {
				if want := parseTime(c.LastMod[e.Loc]); c.LastMod != nil && !e.LastMod.Equal(want) {
					t.Errorf("%s: lastmod %v, want %v", e.Loc, e.LastMod, want)
				}
			}
		})
	}
	if err := lines.Err(); err != nil || rows == 0 {
		t.Fatalf("%d rows, %v", rows, err)
	}
}
