package testweb

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// Of ten requests for pages three are answered before the release, and all after it. A client that goes away is
// noticed.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := StartOn(Config{Pages: 10}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		client := &http.Client{Transport: &http.Transport{DialContext: s.Dial, MaxIdleConnsPerHost: 20}}
		t.Cleanup(client.CloseIdleConnections)
		impatient := &http.Client{Transport: client.Transport, Timeout: time.Second}
		answers := make(chan error, 20)
		ask := func(c *http.Client, n int) {
			for range n {
				go func() {
					res, err := c.Get(s.StartURLs()[0])
					if err == nil {
						_, err = io.Copy(io.Discard, res.Body)
						res.Body.Close()
					}
					answers <- err
				}()
			}
			synctest.Wait()
		}

		s.Hold(3)
		ask(client, 10)
		if n := len(answers); n != 3 || s.Held(0) != 7 {
			t.Errorf("%d requests were answered and %d are held, want 3 and 7", n, s.Held(0))
		}
		ask(impatient, 1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if b := s.HostStats(0); len(answers) != 4 || b.Pages != 11 || b.Aborted != 1 {
			t.Errorf("%d requests have ended, %d began, %d were aborted; want 4, 11, 1", len(answers), b.Pages,
				b.Aborted)
		}
		s.Release()
		ask(client, 5)
		failed := 0
		for range 16 {
			if err := <-answers; err != nil {
				failed++
			}
		}
		if n := s.inflight.Load(); failed != 1 || n != 0 || s.Held(0) != 0 {
			t.Errorf("%d requests failed, %d are in flight and %d held after the release, want 1, 0 and 0", failed, n,
				s.Held(0))
		}
	})
}
