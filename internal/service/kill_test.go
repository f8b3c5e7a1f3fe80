package service

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/testweb"
)

// childDir, when set, makes the test binary a service that runs until it is killed.
const childDir = "MAPWRIGHT_TEST_SERVICE"

// childOptions are what a child is told.
type childOptions struct {
	Dir, Resolve, Slot string
	// hold a crawl that begins to write its outputs until there is something on the standard input
	Hold bool
}

// held is what a child prints when it holds a crawl.
const held = "held"

// done is what a child prints when so many pages of a crawl are durable.
func done(pages int64) string { return fmt.Sprintf("%d pages are done", pages) }

// runChild runs a service and prints its events as they come, and how many pages a crawl that runs has recorded.
func runChild() error {
	var o childOptions
	if err := json.Unmarshal([]byte(os.Getenv(childDir)), &o); err != nil {
		return err
	}
	ctx := context.Background()
	var s *Service
	released := make(chan struct{})
	hold := func(time.Duration) { // called after each transaction
		var finishing bool
		if s == nil || s.db.Read().QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM crawl WHERE state = ?)",
			Finishing).Scan(&finishing) != nil || !finishing {
			return
		}
		fmt.Println(held)
		<-released
	}
	if !o.Hold {
		hold = nil
	}
	s, err := Open(ctx, Options{Dir: o.Dir, Base: quickAt(o.Resolve), MinFree: -1, SlotDir: o.Slot, Observe: hold})
	if err != nil {
		return err
	}
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1)) // its end is a release too
		close(released)
	}()
	last, err := s.Events.Last(ctx) // before the first event of this process
	if err != nil {
		return err
	}
	go func() {
		var err error
		for err == nil {
			added := s.Events.Added()
			var events []Event
			events, err = s.Events.Since(ctx, EventFilter{After: last})
			for _, e := range events {
				last = e.ID
				fmt.Println(e.Crawl, e.Type)
			}
			<-added
		}
		fmt.Println("error", err)
	}()
	go func() {
		last := int64(0)
		for range time.Tick(time.Millisecond) {
			for _, r := range s.Crawls.dispatch.all() {
				if n := r.current().Status().Outcomes["ok"]; n != last { // the store's count, of what is in its journal
					last = n
					fmt.Println(done(n))
				}
			}
		}
	}()
	fmt.Println("ready")
	return s.Run(ctx)
}

// child is a service in a process of its own.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.Writer
	lines chan string
}

func startChild(t *testing.T, dir, slot string, web *testweb.Server) *child {
	t.Helper()
	return startChildWith(t, childOptions{Dir: dir, Resolve: web.Resolve(), Slot: slot})
}

func startChildWith(t *testing.T, o childOptions) *child {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childDir+"="+string(text))
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: cmd, in: in, lines: make(chan string, 1000)}
	go func() {
		defer close(c.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			c.lines <- scan.Text()
		}
	}()
	t.Cleanup(c.kill)
	return c
}

// await waits for a line with a text.
func (c *child) await(text string) {
	c.t.Helper()
	for line := range c.lines {
		if strings.Contains(line, text) {
			return
		}
	}
	c.t.Fatalf("the process ended before it printed %q", text)
}

// kill ends the process without notice. It may be called again.
func (c *child) kill() {
	if c.cmd.ProcessState != nil {
		return
	}
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Error(err)
	}
	for range c.lines {
	}
	_ = c.cmd.Wait() // it was killed
}

// A process that is killed in any state loses no crawl, runs none twice, and the quota is exact to the page.
func TestKilledInEveryState(t *testing.T) {
	t.Parallel()
	const middle, pauseAsked EventType = "middle", "pause asked for"
	for _, at := range []EventType{CrawlQueued, CrawlStarted, middle, pauseAsked, CrawlPausing, CrawlPaused,
		CrawlResumed, CrawlFinishing, CrawlFinished} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			web := startWeb(t, testweb.Config{Pages: 60})
			dir, slot := t.TempDir(), t.TempDir()+"/slot"
			ts := openService(t, Options{Dir: dir, SlotDir: slot, Base: quick(web)})
			ts.setPlan(Plan{PagesPerMonth: 70})
			c := ts.submit(ts.admin, web.StartURLs()[0])
			ts.end()
			halfway := slices.Contains([]EventType{middle, pauseAsked, CrawlPausing, CrawlPaused, CrawlResumed}, at)
			if halfway {
				web.Hold(25)
			}
			child := startChild(t, dir, slot, web)
			records, err := Open(t.Context(), Options{Dir: dir, RecordsOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			command := func(command Command) {
				if _, err := records.Crawls.Command(t.Context(), ts.admin, c.ID, command, nil); err != nil {
					t.Error(err)
				}
			}
			if halfway {
				child.await(done(25))
			}
			switch at {
			case CrawlQueued:
				child.await("ready")
			case middle:
			case pauseAsked: // and killed before the dispatcher has seen it, or just after
				command(CommandPause)
			case CrawlPausing, CrawlPaused, CrawlResumed:
				command(CommandPause)
				child.await(string(CrawlPausing))
				if at != CrawlPausing {
					web.Release()
					child.await(string(CrawlPaused))
				}
				if at == CrawlResumed {
					command(CommandResume)
				}
			default:
				child.await(string(at))
			}
			child.kill()
			web.Release()
			if err := records.Close(); err != nil {
				t.Error(err)
			}

			again := openService(t, Options{Dir: dir, SlotDir: slot, Base: quick(web)})
			if c, err = again.Crawls.Get(t.Context(), again.admin, c.ID); err != nil {
				t.Fatal(err)
			}
			if c.State == Complete {
				checkFiles(t, again, c.ID)
			}
			again.run()
			if at == pauseAsked || at == CrawlPausing || at == CrawlPaused {
				paused := again.awaitState(c.ID, Paused)
				if used, granted := again.used(); granted != 0 || used != paused.PagesCounted {
					t.Errorf("paused: %d pages used, %d reserved, %d counted", used, granted, paused.PagesCounted)
				}
				if paused.Done < 25 || paused.Found != paused.Done+paused.Pending {
					t.Errorf("paused: %d found, %d done, %d pending", paused.Found, paused.Done, paused.Pending)
				}
				again.do(c.ID, CommandResume)
			}
			c = again.awaitState(c.ID, Complete)
			if c.Done != 60 || c.Found != 60 {
				t.Errorf("%d of %d pages done", c.Done, c.Found)
			}
			if used, granted := again.used(); used != 60 || granted != 0 {
				t.Errorf("%d pages used, %d reserved; the crawl has 60", used, granted)
			}
			checkFiles(t, again, c.ID)
		})
	}
}

// checkFiles checks that a complete crawl has its outputs.
func checkFiles(t *testing.T, ts *testService, id string) {
	t.Helper()
	for _, path := range []string{ts.Crawls.DataDir(id).JSONL(), ts.Crawls.DataDir(id).Report()} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// A deletion that was interrupted goes on, and the pages stay used.
func TestKilledWhileDeleting(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 30})
	dir, slot := t.TempDir(), t.TempDir()+"/slot"
	ts := openService(t, Options{Dir: dir, SlotDir: slot, Base: quick(web)})
	c := ts.submit(ts.admin, web.StartURLs()[0])
	ts.end()
	web.Hold(20)
	child := startChild(t, dir, slot, web)
	child.await(done(20))
	records, err := Open(t.Context(), Options{Dir: dir, RecordsOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	child.kill()
	if _, err := records.Crawls.Command(t.Context(), ts.admin, c.ID, CommandDelete, nil); err != nil {
		t.Error(err)
	}
	if err := records.Close(); err != nil {
		t.Error(err)
	}
	again := openService(t, Options{Dir: dir, SlotDir: slot, Base: quick(web)}).run()
	awaitGone(again, c.ID)
	if used, granted := again.used(); used != 20 || granted != 0 {
		t.Errorf("%d pages used, %d reserved; the crawl had recorded 20", used, granted)
	}
	if entries, err := os.ReadDir(again.trashDir()); err != nil && !errors.Is(err, fs.ErrNotExist) || len(entries) > 0 {
		t.Errorf("left in the trash: %v, %v", entries, err)
	}
}

// A process is killed between the record that a crawl writes its outputs and the first of them, and between the last of
// them and the record of its end. The crawl is never complete without its files, and the next process brings it to its
// end without asking for a page again.
func TestKilledBetweenStateAndOutputs(t *testing.T) {
	t.Parallel()
	for _, written := range []bool{false, true} {
		t.Run(fmt.Sprintf("written=%t", written), func(t *testing.T) {
			t.Parallel()
			web := startWeb(t, testweb.Config{Pages: 20})
			o := Options{Dir: t.TempDir(), SlotDir: t.TempDir() + "/slot", Base: quick(web)}
			ts := openService(t, o)
			c := ts.submit(ts.admin, web.StartURLs()[0])
			ts.end()
			records, err := Open(t.Context(), Options{Dir: o.Dir, RecordsOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			child := startChildWith(t, childOptions{Dir: o.Dir, Resolve: web.Resolve(), Slot: o.SlotDir, Hold: true})
			child.await(held)
			last := records.Crawls.reportFile(c.ID, 0) // written after all outputs
			if written {
				// While this transaction lasts the child cannot record the end.
				err = records.Write(t.Context(), func(*Tx) error {
					if _, err := child.in.Write([]byte("\n")); err != nil {
						return err
					}
					awaitFile(t, last)
					child.kill()
					return nil
				})
			}
			child.kill()
			crawl, getErr := records.Crawls.Get(t.Context(), ts.admin, c.ID)
			if err := errors.Join(err, getErr, records.Close()); err != nil {
				t.Fatal(err)
			}
			if crawl.State != Finishing {
				t.Errorf("it was killed when the crawl was %s", crawl.State)
			}
			for _, path := range []string{ts.Crawls.DataDir(c.ID).JSONL(), ts.Crawls.DataDir(c.ID).Report(), last} {
				if _, err := os.Stat(path); (err == nil) != written {
					t.Errorf("%s: %v", path, err)
				}
			}
			again := openService(t, o).run()
			if c = again.awaitState(c.ID, Complete); c.Done != 20 {
				t.Errorf("%d pages done", c.Done)
			}
			checkFiles(t, again, c.ID)
			if pages := web.HostStats(0).Pages; pages != 20 {
				t.Errorf("%d pages were asked for, want 20", pages)
			}
			if used, granted := again.used(); used != 20 || granted != 0 {
				t.Errorf("%d pages used, %d reserved", used, granted)
			}
			want := []EventType{CrawlQueued, CrawlStarted, CrawlFinishing, CrawlFinished}
			if got := again.eventTypes(c.ID); !slices.Equal(got, want) {
				t.Errorf("events %v, want %v", got, want)
			}
		})
	}
}

// awaitFile waits until there is a file.
func awaitFile(t *testing.T, path string) { awaitText(t, path, "") }

// awaitText waits until a file has a text.
func awaitText(t *testing.T, path, text string) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		if got, err := os.ReadFile(path); err == nil && strings.Contains(string(got), text) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("there is no %q in %s", text, path)
		}
	}
}

// What a kill between two steps of an end or of a deletion leaves behind is brought to the same result. The situations
// are made from a crawl that has ended: some cannot be met by a kill from outside.
func TestKilledBetweenTwoSteps(t *testing.T) {
	t.Parallel()
	const finishing, deleting = "UPDATE crawl SET state = 'finishing' WHERE id = ?",
		"UPDATE crawl SET state = 'deleting', desired = 'delete' WHERE id = ?"
	remove := func(ts *testService, id string) error { return os.RemoveAll(ts.crawlDir(id)) }
	rename := func(ts *testService, id string) error {
		return os.Rename(ts.crawlDir(id), filepath.Join(ts.trashDir(), id))
	}
	for _, tt := range []struct {
		name, statement string
		leave           func(ts *testService, id string) error
	}{
		{"outputs written, end not recorded", finishing, nil},
		{"a part of the outputs written", finishing, func(ts *testService,
			id string) error {
			return os.Remove(ts.Crawls.DataDir(id).Report())
		}},
		{"no output written", finishing, func(ts *testService, id string) error {
			return errors.Join(os.Remove(ts.Crawls.DataDir(id).Report()), os.Remove(ts.Crawls.DataDir(id).JSONL()))
		}},
		{"deletion recorded", deleting, nil},
		{"directory in the trash", deleting, rename},
		{"a part of the trash removed", deleting, func(ts *testService, id string) error {
			return errors.Join(os.RemoveAll(string(ts.Crawls.DataDir(id).State())), rename(ts, id))
		}},
		{"directory removed", deleting, remove},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			web := startWeb(t, testweb.Config{Pages: 20})
			o := Options{Dir: t.TempDir(), SlotDir: t.TempDir() + "/slot", Base: quick(web)}
			ts := openService(t, o).run()
			c := ts.submit(ts.admin, web.StartURLs()[0])
			ts.awaitState(c.ID, Complete)
			ts.end()
			ts = openService(t, o)
			err := ts.Write(t.Context(), func(tx *Tx) error {
				return errors.Join(tx.Change(tt.statement, c.ID),
					tx.Change("DELETE FROM crawl_run WHERE crawl = ?", c.ID))
			})
			if err == nil && tt.leave != nil {
				err = tt.leave(ts, c.ID)
			}
			if err != nil {
				t.Fatal(err)
			}
			ts.end()

			again := openService(t, o).run()
			if tt.statement == finishing {
				if c = again.awaitState(c.ID, Complete); c.Done != 20 {
					t.Errorf("%d pages done", c.Done)
				}
				checkFiles(t, again, c.ID)
			} else {
				awaitGone(again, c.ID)
			}
			if pages := web.HostStats(0).Pages; pages != 20 {
				t.Errorf("%d pages were asked for, want 20", pages)
			}
			if used, granted := again.used(); used != 20 || granted != 0 {
				t.Errorf("%d pages used, %d reserved", used, granted)
			}
			again.end()
			if entries, err := os.ReadDir(again.trashDir()); err != nil || len(entries) > 0 {
				t.Errorf("left in the trash: %v, %v", entries, err)
			}
		})
	}
}

// A crawl that is to be cancelled when the process is killed is cancelled by the next one, with the outputs of what was
// found.
func TestKilledWhileCancelling(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 40})
	o := Options{Dir: t.TempDir(), SlotDir: t.TempDir() + "/slot", Base: quick(web)}
	ts := openService(t, o)
	c := ts.submit(ts.admin, web.StartURLs()[0])
	ts.end()
	web.Hold(20)
	child := startChild(t, o.Dir, o.SlotDir, web)
	child.await(done(20))
	records, err := Open(t.Context(), Options{Dir: o.Dir, RecordsOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = records.Crawls.Command(t.Context(), ts.admin, c.ID, CommandCancel, nil)
	child.kill()
	if err = errors.Join(err, records.Close()); err != nil {
		t.Fatal(err)
	}
	again := openService(t, o).run()
	c = again.awaitState(c.ID, Cancelled)
	checkFiles(t, again, c.ID)
	if used, granted := again.used(); used != c.PagesCounted || used < 20 || used > 40 || granted != 0 {
		t.Errorf("%d pages used, %d reserved, %d counted", used, granted, c.PagesCounted)
	}
}

// A recrawl that is killed goes on, and the outputs of the generation before are there until then.
func TestKilledWhileRecrawling(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 40})
	o := Options{Dir: t.TempDir(), SlotDir: t.TempDir() + "/slot", Base: quick(web)}
	ts := openService(t, o).run()
	c := ts.submit(ts.admin, web.StartURLs()[0])
	ts.awaitState(c.ID, Complete)
	ts.end()
	records := openService(t, o)
	records.do(c.ID, CommandRecrawl)
	records.end()
	before := web.HostStats(0).Pages
	web.Hold(10)
	child := startChild(t, o.Dir, o.SlotDir, web)
	awaitPages(t, web, before+11)
	child.kill()
	web.Release()
	again := openService(t, o)
	checkFiles(t, again, c.ID)
	again.run()
	c = again.await(c.ID, func(c *Crawl) bool { return c.Generation == 1 && c.State.Ended() })
	if c.State != Complete || c.Found != 40 {
		t.Errorf("%s, %d pages found", c.State, c.Found)
	}
	if used, granted := again.used(); used != 40+c.PagesCounted || granted != 0 {
		t.Errorf("%d pages used, %d reserved, %d counted in the recrawl", used, granted, c.PagesCounted)
	}
}

// A recrawl that begins when the database is an older copy than the crawl's directory visits the pages, and continues
// the directory's numbers.
func TestRecrawlAfterAnOlderDatabase(t *testing.T) {
	t.Parallel()
	const lost = 2 // recrawls that the copy does not know
	for name, queued := range map[string]bool{"ordered later": false, "ordered before the copy": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web := startWeb(t, testweb.Config{Pages: 10})
			o := Options{Dir: t.TempDir(), SlotDir: t.TempDir() + "/slot", Base: quick(web)}
			ts := openService(t, o).run()
			id := ts.submit(ts.admin, web.StartURLs()[0]).ID
			ts.awaitState(id, Complete)
			ts.end()
			records := openService(t, o)
			if queued {
				records.do(id, CommandRecrawl)
			}
			records.end()
			file := filepath.Join(o.Dir, "service.db")
			older, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			ts = openService(t, o).run()
			for i := range uint32(lost) {
				if c := ts.get(id); c.Generation == i {
					ts.do(id, CommandRecrawl)
				}
				ts.await(id, func(c *Crawl) bool { return c.Generation == i+1 && c.State == Complete })
			}
			ts.end()
			if err := os.WriteFile(file, older, 0o600); err != nil {
				t.Fatal(err)
			}
			ts = openService(t, o)
			if !queued {
				ts.do(id, CommandRecrawl)
			}
			before := web.HostStats(0).Pages
			ts.run()
			c := ts.awaitState(id, Complete)
			if asked := web.HostStats(0).Pages - before; c.Generation != lost+1 || asked < 10 {
				t.Errorf("generation %d, %d pages requested", c.Generation, asked)
			}
			checkFiles(t, ts, id)
		})
	}
}

// Cancelled crawls that have yet to write their files when the server has ended too often write them one at a time. Only
// one in whose turn the server ends again gives its files up.
func TestKilledOftenWhileCancelling(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 40})
	o := Options{Dir: t.TempDir(), SlotDir: t.TempDir() + "/slot", Base: quick(web)}
	ts := openService(t, o).run()
	var ids []string
	for range 3 {
		before := web.HostStats(0).Pages
		web.Hold(10)
		id := ts.submit(ts.admin, web.StartURLs()[0]).ID
		awaitPages(t, web, before+11)
		ts.do(id, CommandPause)
		ts.awaitState(id, Pausing, Paused)
		web.Release()
		ts.awaitState(id, Paused)
		ids = append(ids, id)
	}
	ts.end()
	records := openService(t, o)
	for range uncleanEnds { // processes that ended without notice
		if _, err := records.recover(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := records.Write(t.Context(), func(tx *Tx) error {
		return errors.Join(tx.Change("UPDATE crawl SET state = ?, desired = ?", Finishing, DesiredCancel),
			tx.Change("UPDATE crawl SET trial = ? WHERE id = ?", onTrial, ids[0]))
	}); err != nil {
		t.Fatal(err)
	}
	records.end()
	again := openService(t, o)
	if _, err := again.recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		row, err := getRow(t.Context(), again.db.Read(), "", id)
		if err != nil || (row.State == Finishing && row.trial == awaitsTrial) != (i > 0) {
			t.Errorf("crawl %d is %s, trial %d, %v", i, row.State, row.trial, err)
		}
	}
	again.run()
	for i, id := range ids {
		c := again.awaitState(id, Cancelled)
		if i == 0 {
			if !strings.Contains(strings.Join(c.Errors, " "), "the server ended while it wrote them") {
				t.Errorf("the one on trial: %q", c.Errors)
			}
			continue
		}
		checkFiles(t, again, id)
	}
}

// A recrawl that wrote its files when the server ended, however often it did, is not cancelled: some of the files may
// be new. It writes all of them in its turn. If the server ends in that, it has failed, and can be resumed.
func TestKilledOftenWhileARecrawlFinishes(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 20})
	o := Options{Dir: t.TempDir(), SlotDir: t.TempDir() + "/slot", Base: quick(web)}
	ts := openService(t, o).run()
	id := ts.submit(ts.admin, web.StartURLs()[0]).ID
	ts.awaitState(id, Complete)
	ts.do(id, CommandRecrawl)
	ts.await(id, func(c *Crawl) bool { return c.State == Complete && c.Generation == 1 })
	ts.end()
	records := openService(t, o)
	recovered := func() *Crawl {
		t.Helper()
		if _, err := records.recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		return records.get(id)
	}
	for range uncleanEnds { // processes that ended without notice
		recovered()
	}
	err := records.Write(t.Context(), func(tx *Tx) error {
		return errors.Join(tx.Change("UPDATE crawl SET state = ?, result_json = '{}'", Finishing),
			tx.Change("DELETE FROM crawl_run WHERE generation = 1"))
	})
	if err := errors.Join(err, os.Remove(records.Crawls.DataDir(id).Report())); err != nil {
		t.Fatal(err)
	}
	c := recovered()
	if _, err := records.Crawls.Command(t.Context(), records.admin, id, CommandCancel, nil); err == nil ||
		c.State != Finishing {
		t.Errorf("a crawl that was finishing is %s; cancel: %v", c.State, err)
	}
	if err := records.Write(t.Context(), func(tx *Tx) error { // as if the process had ended in its turn
		return tx.Change("UPDATE crawl SET trial = ?", onTrial)
	}); err != nil {
		t.Fatal(err)
	}
	if c = recovered(); c.State != Failed || c.Generation != 1 ||
		!strings.Contains(strings.Join(c.Errors, " "), "the server ended while it wrote them") {
		t.Errorf("%s, generation %d, %q", c.State, c.Generation, c.Errors)
	}
	records.do(id, CommandResume)
	records.end()
	again := openService(t, o).run()
	if c = again.awaitState(id, Complete); c.Generation != 1 || c.Done != 20 {
		t.Errorf("resumed: generation %d, %d pages done", c.Generation, c.Done)
	}
	checkFiles(t, again, id)
}

// A crawl that a key pauses soon after its trial has begun has not passed it: when it is resumed, it is on trial again,
// and does not run beside another one.
func TestPausedOnTrial(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 40})
	o := Options{Dir: t.TempDir(), SlotDir: t.TempDir() + "/slot", Base: quick(web),
		trial: 24 * time.Hour}
	ts := openService(t, o)
	var ids []string
	for range 2 {
		ids = append(ids, ts.submit(ts.admin, web.StartURLs()[0]).ID)
	}
	for range uncleanEnds { // processes that ended without notice
		if _, err := ts.recover(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := ts.Write(t.Context(), func(tx *Tx) error {
		return tx.Change("UPDATE crawl SET state = ?, started_at = 1", Running)
	}); err != nil {
		t.Fatal(err)
	}
	ts.end()
	web.Hold(5)
	again := openService(t, o).run()
	again.awaitState(ids[0], Running)
	awaitPages(t, web, 6)
	again.do(ids[0], CommandPause)
	again.awaitState(ids[0], Pausing, Paused)
	web.Release()
	web.Hold(0)
	again.awaitState(ids[0], Paused)
	if row, err := getRow(t.Context(), again.db.Read(), "", ids[0]); err != nil || row.trial != awaitsTrial {
		t.Errorf("trial %d, %v", row.trial, err)
	}
	awaitStep(again, ids[1], func(c *Crawl) bool { return c.State == Running || c.State.Ended() })
	again.do(ids[0], CommandResume)
	if again.get(ids[1]).State == Running {
		awaitStep(again, ids[0], func(c *Crawl) bool { return c.Waiting != nil && c.Waiting.Code == WaitRecovery })
	}
	web.Release()
	for _, id := range ids {
		again.awaitState(id, Complete)
	}
}

// A crawl that may be the cause is not on trial together with another one, whatever was asked of it, though a slot is
// kept for cancelling.
func TestOneTrialAtATime(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		state     State
		desired   Desired
		trial     trial
		then      Command
		runsFirst bool
		want      State
	}{
		{"cancelled before", Finishing, DesiredCancel, noTrial, "", false, Cancelled},
		{"convicted, then cancelled", Paused, DesiredRun, convicted, CommandCancel, false, Cancelled},
		{"convicted, then resumed", Paused, DesiredRun, convicted, CommandResume, true, Complete},
		{"resumed before its trial", Paused, DesiredRun, awaitsTrial, CommandResume, true, Complete},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			web := startWeb(t, testweb.Config{Pages: 40})
			o := Options{Dir: t.TempDir(), SlotDir: t.TempDir() + "/slot", Base: quick(web)}
			ts := openService(t, o).run()
			var ids []string
			for range 2 {
				before := web.HostStats(0).Pages
				web.Hold(10)
				id := ts.submit(ts.admin, web.StartURLs()[0]).ID
				awaitPages(t, web, before+11)
				ts.do(id, CommandPause)
				ts.awaitState(id, Pausing, Paused)
				web.Release()
				ts.awaitState(id, Paused)
				ids = append(ids, id)
			}
			ts.end()
			records := openService(t, o)
			for range uncleanEnds { // processes that ended without notice
				if _, err := records.recover(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := records.Write(t.Context(), func(tx *Tx) error {
				return errors.Join(tx.Change("UPDATE crawl SET state = ?, desired = ?", Running, DesiredRun),
					tx.Change("UPDATE crawl SET state = ?, desired = ?, trial = ? WHERE id = ?", tt.state, tt.desired,
						tt.trial, ids[1]))
			}); err != nil {
				t.Fatal(err)
			}
			if tt.then != "" {
				records.do(ids[1], tt.then)
			}
			records.end()
			web.Hold(0)
			again := openService(t, o).run()
			first, second := ids[0], ids[1]
			if tt.runsFirst {
				first, second = second, first
			}
			again.awaitState(first, Running)
			awaitStep(again, second, func(c *Crawl) bool { return c.Waiting != nil && c.Waiting.Code == WaitRecovery })
			if r := again.Crawls.dispatch.runner(second); r != nil {
				t.Error("both are on trial")
			}
			web.Release()
			again.awaitState(ids[0], Complete)
			again.awaitState(ids[1], tt.want)
			checkFiles(t, again, ids[1])
		})
	}
}
