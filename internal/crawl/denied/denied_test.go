package denied

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// inner answers with a stream, or after its context has ended if hold is set.
type inner struct {
	hold  bool
	begun chan context.Context
}

func (i *inner) Do(ctx context.Context, r fetch.Request) (*fetch.Response, error) {
	i.begun <- ctx
	if i.hold {
		<-ctx.Done()
		return nil, &fetch.Error{Kind: fetch.Canceled, Phase: "headers", Err: ctx.Err()}
	}
	return &fetch.Response{Status: 200, Reader: strings.NewReader("x")}, nil
}

func TestFetcher(t *testing.T) {
	list := New()
	i := &inner{hold: true, begun: make(chan context.Context, 10)}
	f := Fetcher{Inner: i, Hosts: list}
	do := func(url string) (*fetch.Response, error) {
		return f.Do(t.Context(), fetch.Request{URL: weburl.MustCanonical(url)})
	}
	failed := make(chan error, 1)
	go func() {
		_, err := do("http://bad.test/held")
		failed <- err
	}()
	<-i.begun
	if err := list.Set([]string{"bad.test"}); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, ErrHost) || fetch.KindOf(err) != fetch.Canceled {
		t.Errorf("a request under way ends with %v", err)
	}
	if _, err := do("http://bad.test/"); !errors.Is(err, ErrHost) || len(i.begun) > 0 {
		t.Errorf("a request to a denied host: %v, %d begun", err, len(i.begun))
	}
	i.hold = false
	resp, err := do("http://good.test/list")
	if err != nil {
		t.Fatal(err)
	}
	reading := <-i.begun
	if body, err := io.ReadAll(resp.Reader); string(body) != "x" || err != nil || reading.Err() != nil {
		t.Errorf("read %q, %v; the context: %v", body, err, reading.Err())
	}
	if err := list.Set([]string{"good.test"}); err != nil {
		t.Fatal(err)
	}
	if context.Cause(reading) != ErrHost {
		t.Errorf("a stream of a denied host: %v", context.Cause(reading))
	}
	resp.Close()
	if len(list.requests) > 0 {
		t.Errorf("%d requests are remembered", len(list.requests))
	}
}
