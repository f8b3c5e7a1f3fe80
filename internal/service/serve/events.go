package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/service"
)

const (
	heartbeat   = 15 * time.Second
	checkEvery  = 2 * time.Second  // whether the credential of a stream has ended
	eventTime   = 20 * time.Second // for a client to take what was written
	eventsAtA   = 500              // events that are read from the database at once
	mostStreams = 1000             // and at most half of all connections; an account has a quarter of them
	eventKind   = "text/event-stream"
)

// streams are the clients of event streams. Durable events are read from the database after the last one that a client
// has, so a slow client loses none and costs no memory. A client gets only the newest sample of each crawl.
type streams struct {
	server *Server

	mu  sync.Mutex
	all map[*stream]bool // guarded by mu
}

// stream is one client.
type stream struct {
	owner   string // the account of the client
	account string // empty means all accounts
	crawl   string // empty means all crawls
	sampled chan struct{}

	mu      sync.Mutex
	samples map[string][]byte // guarded by mu; the newest of each crawl that was not sent yet
}

func newStreams(s *Server) *streams { return &streams{server: s, all: map[*stream]bool{}} }

// count is the number of clients.
func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

func (s *streams) add(one *stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := 0
	for other := range s.all {
		if other.owner == one.owner {
			own++
		}
	}
	if most := min(mostStreams, s.server.Connections/2); len(s.all) >= most || own >= max(1, most/4) {
		return false
	}
	s.all[one] = true
	return true
}

func (s *streams) remove(one *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, one)
}

// sample takes a sample of each running crawl that a client watches.
func (s *streams) sample(ctx context.Context) {
	s.mu.Lock()
	clients := slices.Collect(maps.Keys(s.all))
	s.mu.Unlock()
	if len(clients) == 0 {
		return
	}
	running, err := s.server.Service.Crawls.List(ctx, &service.Caller{System: "monitor",
		Scopes: []service.Scope{service.ScopeAdmin}},
		service.CrawlFilter{States: []service.State{service.Running, service.Pausing, service.Finishing},
			Limit: mostItems})
	if err != nil {
		if ctx.Err() == nil {
			s.server.Log.Error("cannot take samples of running crawls", "error", err)
		}
		return
	}
	for _, crawl := range running.Items {
		var text []byte
		for _, one := range clients {
			if !one.wants(crawl.Account, crawl.ID) {
				continue
			}
			if text == nil {
				live := s.server.Service.Crawls.Live(crawl.ID)
				if live == nil {
					break // it has ended
				}
				text = sampleText(crawl.ID, live)
			}
			one.offer(crawl.ID, text)
		}
	}
	for _, one := range clients {
		one.wake()
	}
}

// sampleText is a sample as an event without id.
func sampleText(id string, live *monitor.Live) []byte {
	return unstored("", service.Event{Type: service.Sample, Crawl: id, Generation: live.Generation,
		Actor: service.Actor{System: "monitor"}}, live)
}

// gapText tells a client that it does not get all events after the one that it has.
func gapText(crawl string, has, from int64) []byte {
	detail := "events after the one with the id has are not kept any more: read the crawls again; the stream goes on " +
		"after the id from"
	if has > from {
		detail = "there is no event with the id has: the database may be an older copy. Read the crawls again; the " +
			"stream goes on after the id from"
	}
	return unstored(fmt.Sprintf("retry: 1000\nid: %d\n", from),
		service.Event{Type: service.Gap, Crawl: crawl, Actor: service.Actor{System: "events"}},
		map[string]any{"has": has, "from": from, "detail": detail})
}

// unstored is an event that is not in the database, as a text for the stream. head is put before it.
func unstored(head string, e service.Event, data any) (text []byte) {
	e.At = page.Time{Time: time.Now().UTC()}
	var err error
	if e.Data, err = json.Marshal(data); err == nil {
		text, err = json.Marshal(e)
	}
	if err != nil {
		return nil // only values of types that can be encoded are passed
	}
	return fmt.Appendf(nil, "%sevent: %s\ndata: %s\n\n", head, e.Type, text)
}

func (o *stream) wants(account, crawl string) bool {
	return (o.account == "" || o.account == account) && (o.crawl == "" || o.crawl == crawl)
}

func (o *stream) offer(crawl string, text []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.samples[crawl] = text
}

// wake makes the client's request send its samples, if there are any.
func (o *stream) wake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.samples) == 0 {
		return
	}
	select {
	case o.sampled <- struct{}{}:
	default:
	}
}

// take returns the samples that were not sent yet.
func (o *stream) take() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	var text []byte
	for _, sample := range o.samples {
		text = append(text, sample...)
	}
	clear(o.samples)
	return text
}

func (c *call) allEvents() error {
	return c.stream(&stream{account: c.caller.Visible()})
}

func (c *call) crawlEvents() error {
	if _, err := c.Service.Crawls.Get(c.ctx, c.caller, c.id()); err != nil {
		return err
	}
	return c.stream(&stream{crawl: c.id()})
}

// stream sends events until the client goes, the server drains or the credential ends.
func (c *call) stream(one *stream) error {
	after, err := c.after()
	if err != nil {
		return err
	}
	one.owner, one.sampled, one.samples = c.caller.Account.ID, make(chan struct{}, 1), map[string][]byte{}
	if !c.streams.add(one) {
		return refuse(service.ErrUnavailable,
			"too many event streams are open: close some, or read all crawls by one stream of /v1/events")
	}
	defer c.streams.remove(one)
	h := c.w.Header()
	h.Set("Content-Type", eventKind)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // for nginx
	from, missing, err := c.Service.Events.Gap(c.ctx,
		service.EventFilter{Account: one.account, Crawl: one.crawl, After: after})
	if err != nil {
		return err
	}
	// The id tells a client where to go on if the stream breaks before the first event.
	begin := fmt.Appendf(nil, "retry: 1000\nid: %d\n\n", after)
	if missing {
		begin, after = gapText(one.crawl, after, from), from
	}
	c.endTurn()
	if err := c.push(begin); err != nil || c.r.Method == http.MethodHead {
		return nil
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	var changed <-chan struct{}
	for due := true; ; {
		if due {
			changed = c.Service.Events.Added() // before reading, so that nothing is missed
			if after, err = c.sendEvents(one, after); err != nil {
				return c.ended(err)
			}
			due = false
		}
		select {
		case <-changed:
			due = true
		case <-one.sampled:
			if err := c.push(one.take()); err != nil {
				return nil
			}
		case <-check.C:
			if c.hasEnded() {
				return nil
			}
		case <-beat.C:
			if err := c.push([]byte(": \n\n")); err != nil {
				return nil
			}
		case <-c.draining:
			return nil
		case <-c.ctx.Done():
			return nil
		}
	}
}

// after is the id of the last event that the client has.
func (c *call) after() (int64, error) {
	q := c.query()
	text := q.text("since")
	if err := q.done(); err != nil {
		return 0, err
	}
	name := "since"
	if last := c.r.Header.Get("Last-Event-ID"); last != "" {
		text, name = last, "Last-Event-ID"
	}
	if text == "" {
		return c.Service.Events.Last(c.ctx)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, refuse(service.ErrInvalid, "the query has faults",
			service.FieldError{Field: name, Code: "invalid", Detail: "must be the id of an event"})
	}
	return n, nil
}

// errGone means that the client does not take what is written.
type errGone struct{ error }

// sendEvents sends the durable events that the client does not have, and returns the id of the last one.
func (c *call) sendEvents(one *stream, after int64) (int64, error) {
	for {
		text, n, last, err := c.readEvents(one, after)
		if err != nil {
			return after, err
		}
		if n > 0 {
			if err := c.push(text); err != nil {
				return after, errGone{err}
			}
			after = last
		}
		if n < eventsAtA {
			return after, nil
		}
	}
}

// readEvents reads the next events of a stream as its text, and says how many there are and which is the last. Streams
// of an account take turns, so that they do not hold all readers of the database.
func (c *call) readEvents(one *stream, after int64) (text []byte, n int, last int64, err error) {
	end, ok := c.limits.reading.enter(c.ctx, one.owner)
	for ; !ok; end, ok = c.limits.reading.enter(c.ctx, one.owner) {
		if err := c.ctx.Err(); err != nil {
			return nil, 0, 0, err
		}
	}
	defer end()
	events, err := c.Service.Events.Since(c.ctx,
		service.EventFilter{Account: one.account, Crawl: one.crawl, After: after, Limit: eventsAtA})
	if err != nil {
		return nil, 0, 0, err
	}
	for _, event := range events {
		data, err := json.Marshal(event)
		if err != nil {
			return nil, 0, 0, err
		}
		text = fmt.Appendf(text, "id: %d\nevent: %s\ndata: %s\n\n", event.ID, event.Type, data)
		last = event.ID
	}
	return text, len(events), last, nil
}

// ended logs why a stream ended, unless the client ended it. The answer has begun, so the client cannot be told.
func (c *call) ended(err error) error {
	if _, gone := err.(errGone); !gone && c.ctx.Err() == nil {
		c.Log.Error("an event stream ended", "request", requestID(c.r), "error", err)
	}
	return nil
}

// push sends a part of a stream to a client that may be slow.
func (c *call) push(text []byte) error {
	control := http.NewResponseController(c.w)
	_ = control.SetWriteDeadline(time.Now().Add(eventTime)) // not supported by recorders of tests
	if _, err := c.w.Write(text); err != nil {
		return err
	}
	return control.Flush()
}
