package crawl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// A stop that is called before the last page has its answer counts, though the supervisor is busy until the workers
// have ended.
func TestStopBeforeTheSupervisorLooks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for mode, want := range map[StopMode]string{Pause: "paused", Gracefully: string(page.Cancelled) +
			" with 4 pages"} {
			web := newMemoryWeb(t, testweb.Config{Pages: 4})
			s := quick(web.Server)
			s.Duration, s.Timeout = 10*time.Second, time.Minute
			o := web.options(s, newDir(t), web.StartURLs()...)
			busy, free := make(chan struct{}), make(chan struct{})
			o.Managed.Notify = func(n Notice) { // at 80 % of the time
				if n.Limit == "seconds" {
					close(busy)
					<-free
				}
			}
			c, err := newTested(newShared(t, SharedOptions{}), o)
			if err != nil {
				t.Fatal(err)
			}
			web.Hold(3)
			ended := make(chan string)
			go func() {
				rep, err := c.Run(t.Context())
				switch {
				case errors.Is(err, ErrPaused):
					ended <- "paused"
				case err != nil:
					ended <- err.Error()
				default:
					ended <- fmt.Sprintf("%s with %d pages", rep.Status, rep.Outcomes["ok"])
				}
			}()
			<-busy
			c.Stop(mode)
			web.Release()
			synctest.Wait()
			close(free)
			if got := <-ended; got != want {
				t.Errorf("it ended as %s, want %s", got, want)
			}
		}
	})
}

// When the process ends, outputs that are being written are given up, after a cancellation too; the next run writes
// them. A pause lets them be written.
func TestSuspendWhileOutputsAreWritten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, cancelled := range []bool{false, true} {
			web := newMemoryWeb(t, testweb.Config{Pages: 4})
			o := web.options(quick(web.Server), newDir(t), web.StartURLs()...)
			var c *tested
			o.Managed.Finishing = func() bool {
				if cancelled {
					c.Stop(Gracefully)
				}
				c.Stop(Suspend)
				return true
			}
			c = newAlone(t, o)
			if rep, err := c.Run(t.Context()); !errors.Is(err, ErrPaused) {
				t.Errorf("cancelled %t: the report is %+v, the error %v", cancelled, rep, err)
			}
			if _, err := os.Stat(o.Dir.JSONL()); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("cancelled %t: the pages: %v", cancelled, err)
			}
			plan, err := datadir.ReadPlan(o.Dir)
			if err != nil {
				t.Fatal(err)
			}
			o.Starts, o.Plan, o.Managed.Finishing = nil, plan, nil
			rep, err := newAlone(t, o).Run(t.Context())
			if err != nil || rep.Status != page.Complete || rep.Outcomes["ok"] != 4 {
				t.Errorf("cancelled %t: the next run: %+v, %v", cancelled, rep, err)
			}
			if pages := web.HostStats(0).Pages; pages != 4 {
				t.Errorf("cancelled %t: %d pages were asked for", cancelled, pages)
			}
		}
		web := newMemoryWeb(t, testweb.Config{Pages: 4})
		o := web.options(quick(web.Server), newDir(t), web.StartURLs()...)
		var c *tested
		o.Managed.Finishing = func() bool { c.Stop(Pause); return true }
		c = newAlone(t, o)
		if rep, err := c.Run(t.Context()); err != nil || rep.Status != page.Complete {
			t.Errorf("paused: the report is %+v, the error %v", rep, err)
		}
	})
}
