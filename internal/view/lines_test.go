package view

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/crawl"
)

func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder // looked at only while Lines sleeps
		now := busy()
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { Lines(ctx, slog.New(slog.NewTextHandler(&out, nil)), func() *crawl.Live { return now }) })
		for _, step := range []struct {
			live *crawl.Live
			want string
		}{
			{busy(), `msg=crawling pages_per_second=98.2 found=1,234,567 done=456,789 pending=777,778 in_flight=73 bytes="5.0 GiB" memory="412 MiB" pages_limit_in="7 min 19 s" seconds_limit_in="22 h 57 min"`},
			{quiet(), `msg="Waiting for work..." reason="6 URLs wait: 1 host rests after a refusal; the next request in 3.4s" done=9 pending=6`},
			{&crawl.Live{Phase: crawl.Writing, Found: 15}, `msg="writing the outputs" urls=15`},
			{&crawl.Live{Phase: crawl.Stopping, InFlight: 3}, `msg=stopping pages_per_second=0.0`},
		} {
			now = step.live
			out.Reset()
			time.Sleep(LineEvery - time.Nanosecond)
			synctest.Wait()
			if out.Len() > 0 {
				t.Errorf("before its time: %s", out.String())
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if lines := strings.Count(out.String(), "\n"); lines != 1 || !strings.Contains(out.String(), step.want) {
				t.Errorf("got  %swant %s", out.String(), step.want)
			}
		}
		cancel()
		done.Wait()
	})
}
