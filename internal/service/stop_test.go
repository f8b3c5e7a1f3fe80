package service

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/testweb"
)

// The process is asked to end after any transaction of a start, of a new crawl and of one that is crawled again. The
// next process goes on with the crawl, and it comes to its end.
func TestEndedWithNoticeDuringAStart(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(ts *testService, id string){
		"new": func(*testService, string) {},
		"recrawl": func(ts *testService, id string) {
			ts.run().awaitState(id, Complete)
			ts.do(id, CommandRecrawl)
		},
	} {
		t.Run(name, func(t *testing.T) {
			web := startWeb(t, testweb.Config{Pages: 3})
			for n := int64(1); !endedAfter(t, web, n, before); n++ {
				if n == 100 {
					t.Fatal("it does not end")
				}
			}
		})
	}
}

// endedAfter ends the process after its nth transaction. It reports whether the crawl had ended before.
func endedAfter(t *testing.T, web *testweb.Server, n int64, before func(*testService, string)) bool {
	t.Helper()
	dir, slot := t.TempDir(), t.TempDir()+"/slot"
	first := openService(t, Options{Dir: dir, SlotDir: slot, Base: quick(web)})
	id := first.submit(first.admin, web.StartURLs()[0]).ID
	before(first, id)
	first.end()

	var ts *testService
	var written atomic.Int64
	atEnd := make(chan struct{})
	written.Store(-1 << 60) // opening it writes too
	ts = openService(t, Options{Dir: dir, SlotDir: slot, Base: quick(web), Observe: func(time.Duration) {
		if written.Add(1) == n {
			ts.stop()
			close(atEnd)
		}
	}})
	written.Store(0)
	ts.run()
	for isOver := false; !isOver; {
		added := ts.Events.Added()
		if ts.get(id).State.Ended() {
			break
		}
		select {
		case <-atEnd:
			isOver = true
		case <-added:
		}
	}
	ts.end()

	last := openService(t, Options{Dir: dir, SlotDir: slot, Base: quick(web)})
	had := last.get(id)
	if had.State != Queued && had.State != Running && had.State != Finishing && had.State != Complete {
		t.Errorf("ended after transaction %d: it is %s %q", n, had.State, had.Errors)
	}
	if c := last.run().awaitState(id, Complete, Failed); c.State != Complete || c.Done != 3 {
		t.Errorf("ended after transaction %d: at last it is %s with %d pages, %q", n, c.State, c.Done, c.Errors)
	}
	last.end()
	return had.State.Ended()
}
