package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/service"
)

const maxEvent = 4 << 20 // bytes of one line of a stream

// Events are the events and samples of one crawl, or of all crawls if id is empty, after the event with the id last. A
// negative last means from now on. A stream that breaks is opened again after the last event, so no durable event is
// lost or comes twice. The sequence ends with an error of a status below 500, or with the context.
func (c *Client) Events(ctx context.Context, id string, last int64) iter.Seq2[service.Event, error] {
	path := "/v1/events"
	if id != "" {
		path = crawlPath(id, "events")
	}
	return func(yield func(service.Event, error) bool) {
		for pause := firstPause; ; pause = min(2*pause, maxPause) {
			more := true
			err := c.stream(ctx, path, &last, func(e service.Event) bool {
				pause, more = firstPause, yield(e, nil)
				return more
			})
			if !more {
				return
			}
			// A status of 500 and more comes from a server that starts or ends, or from a proxy that does not reach it.
			if refused, ok := errors.AsType[*Error](err); ok && refused.Status < 500 || ctx.Err() != nil {
				yield(service.Event{}, err)
				return
			}
			if c.o.Lost != nil {
				c.o.Lost(err)
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}
}

// stream reads one stream to its end.
func (c *Client) stream(ctx context.Context, path string, last *int64, see func(service.Event) bool) error {
	header := http.Header{"Accept": {"text/event-stream"}}
	if *last >= 0 {
		header.Set("Last-Event-ID", strconv.FormatInt(*last, 10))
	}
	res, err := c.send(ctx, call{method: http.MethodGet, path: path, header: header})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxEvent)
	var data strings.Builder
	at := *last
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case name == "data":
			data.WriteString(value)
		case name == "id":
			if at, err = strconv.ParseInt(value, 10, 64); err != nil {
				return fmt.Errorf("read the id of an event: %w", err)
			}
		case lines.Text() == "" && data.Len() == 0:
			*last = at // the server says where the stream begins
		case lines.Text() == "":
			var e service.Event
			if err := json.Unmarshal([]byte(data.String()), &e); err != nil {
				return fmt.Errorf("read an event: %w", err)
			}
			data.Reset()
			*last = at
			if !see(e) {
				return nil
			}
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}
