package crawl

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// deniedInner answers with a stream, or after its context has ended if hold is set.
type deniedInner struct {
	hold  bool
	begun chan context.Context
}

func (i *deniedInner) Do(ctx context.Context, r fetch.Request) (*fetch.Response, error) {
	i.begun <- ctx
	if i.hold {
		<-ctx.Done()
		return nil, &fetch.Error{Kind: fetch.Canceled, Phase: "headers", Err: ctx.Err()}
	}
	return &fetch.Response{Status: 200, Reader: strings.NewReader("x")}, nil
}

func TestDenyingFetcher(t *testing.T) {
	list := newDenyList()
	i := &deniedInner{hold: true, begun: make(chan context.Context, 10)}
	f := denyingFetcher{i, list}
	do := func(url string) (*fetch.Response, error) {
		return f.Do(t.Context(), fetch.Request{URL: weburl.MustCanonical(url)})
	}
	failed := make(chan error, 1)
	go func() {
		_, err := do("http://bad.test/held")
		failed <- err
	}()
	<-i.begun
	if err := list.set([]string{"bad.test"}); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, errDenied) || fetch.KindOf(err) != fetch.Canceled {
		t.Errorf("a request under way ends with %v", err)
	}
	if _, err := do("http://bad.test/"); !errors.Is(err, errDenied) || len(i.begun) > 0 {
		t.Errorf("a request to a denied host: %v, %d begun", err, len(i.begun))
	}
	if err := list.set([]string{"Worse.test.", "*.below.test", "192.0.2.1"}); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"http://worse.test/", "http://worse.test./", "https://a.below.test.:8443/",
		"http://192.0.2.1/", "http://[::ffff:c000:201]/"} {
		if _, err := do(url); !errors.Is(err, errDenied) || len(i.begun) > 0 {
			t.Errorf("%s: %v, %d begun", url, err, len(i.begun))
		}
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
	if err := list.set([]string{"good.test"}); err != nil {
		t.Fatal(err)
	}
	if context.Cause(reading) != errDenied {
		t.Errorf("a stream of a denied host: %v", context.Cause(reading))
	}
	resp.Close()
	if len(list.requests) > 0 {
		t.Errorf("%d requests are remembered", len(list.requests))
	}
}
