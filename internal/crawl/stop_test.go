package crawl

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

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
