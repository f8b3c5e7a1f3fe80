package crawl

import (
	"log/slog"
	"testing"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
)

// A crawl that fails before it begins leaves a directory that the next start can use.
func TestFailedStartLeavesNoCrawl(t *testing.T) {
	t.Parallel()
	s := config.Defaults(config.Polite)
	start, err := weburl.Parse("http://a.test/")
	if err != nil {
		t.Fatal(err)
	}
	dir := datadir.Dir(t.TempDir() + "/data")
	s.UserAgent = "two\nlines" // the fetcher refuses it, after the store was made
	if _, err := runAlone(t.Context(), Options{Settings: s, Starts: []datadir.Start{{URL: start}}, Dir: dir,
		Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Fatal("no error")
	}
	if err := dir.CheckNew(); err != nil {
		t.Error(err)
	}
	if made, _, err := dir.Made(); err != nil || len(made) != 1 || made[0] != datadir.RecordName {
		t.Errorf("left %v, %v", made, err)
	}
}
