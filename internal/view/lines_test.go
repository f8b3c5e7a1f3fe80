package view

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/crawl/monitor"
)

func TestLines(t *testing.T) {
	documented, err := os.ReadFile(filepath.Join("..", "..", "docs", "live-view.md"))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var out lockedText
		var now atomic.Pointer[monitor.Live]
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { Lines(ctx, slog.New(slog.NewTextHandler(&out, nil)), now.Load) })
		for i, step := range []struct {
			live *monitor.Live
			want string
		}{
			{busy(), `msg=crawling pages_per_second=98.2 found=1,234,567 done=456,789 pending=777,778 in_flight=73 bytes="5.0 GiB" memory="412 MiB" pages_limit_in=7m19s seconds_limit_in=22h57m`},
			{quiet(), `msg="Waiting for work..." reason="6 URLs wait: 1 host rests after a refusal; the next request in 3.4s" done=9 pending=6`},
			{&monitor.Live{Phase: monitor.Writing, Found: 15}, `msg="writing the outputs" urls=15`},
			{&monitor.Live{Phase: monitor.Stopping, InFlight: 3}, `msg=stopping pages_per_second=0.0`},
		} {
			now.Store(step.live)
			time.Sleep(lineEvery - time.Nanosecond)
			synctest.Wait()
			if early := out.take(); early != "" {
				t.Errorf("before its time: %s", early)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if got := out.take(); strings.Count(got, "\n") != 1 || !strings.Contains(got, step.want) {
				t.Errorf("got  %swant %s", got, step.want)
			}
			if i < 2 && !strings.Contains(string(documented), "\nlevel=INFO "+step.want+"\n") {
				t.Errorf("docs/live-view.md does not show %s", step.want)
			}
		}
		cancel()
		done.Wait()
	})
}

// lockedText is what a log has written since it was last taken.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

// In a JSON log the values of a line are numbers.
func TestLinesAsJSON(t *testing.T) {
	var out lockedText
	writeLine(slog.New(slog.NewJSONHandler(&out, nil)), busy())
	var entry map[string]any
	if err := json.Unmarshal([]byte(out.take()), &entry); err != nil {
		t.Fatal(err)
	}
	for name, value := range entry {
		if _, number := value.(float64); !number && name != "time" && name != "level" && name != "msg" {
			t.Errorf("%s is %v (%T), want a number", name, value, value)
		}
	}
	if entry["found"] != 1_234_567.0 || len(entry) < 9 {
		t.Errorf("the line is %v", entry)
	}
}
