package crawl

import (
	"log/slog"
	"os"
	"testing"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
)

// A crawl that fails before it begins leaves nothing of its own: no directory, or an empty one if that was there before.
// The next start can use it.
func TestFailedStartLeavesNothing(t *testing.T) {
	t.Parallel()
	start, err := weburl.Parse("http://a.test/")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		agent string
		free  int64
	}{
		"the fetcher fails":    {"two\nlines", 1 << 40}, // after the store was made
		"the disk is full":     {"a", 0},
		"it has a little room": {"a", 20 << 20},
	} {
		for _, exists := range []bool{false, true} {
			dir := datadir.Dir(t.TempDir() + "/data")
			if exists {
				if err := os.Mkdir(string(dir), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			s := config.Defaults(config.Polite)
			s.UserAgent = c.agent
			if _, err := runAlone(t.Context(), Options{Settings: s, Starts: []datadir.Start{{URL: start}}, Dir: dir,
				Log:       slog.New(slog.DiscardHandler),
				FreeBytes: func(string) (int64, error) { return c.free, nil }}); err == nil {
				t.Fatalf("%s: no error", name)
			}
			if err := dir.CheckNew(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			left, err := os.ReadDir(string(dir))
			if len(left) > 0 || exists != (err == nil) {
				t.Errorf("%s, in a directory that exists %v: left %v, %v", name, exists, left, err)
			}
		}
	}
}
