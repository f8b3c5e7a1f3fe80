package state

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
)

func wantErr(t *testing.T, want, got error, format string, args ...any) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: error %v, want %v", fmt.Sprintf(format, args...), got, want)
	}
}

func wantErrAs[E error](t *testing.T, got error) E {
	t.Helper()
	var e E
	if !errors.As(got, &e) {
		t.Fatalf("error %v, want a %T", got, e)
	}
	return e
}

func (m *model) linkTime() time.Time { return time.UnixMilli(1_700_000_000_000).UTC() }

func key(n uint64) frontier.Key {
	return frontier.Key{Host: frontier.HostID(n << 32), Hi: n * 3, Lo: n * 7}
}

// mustURL is the URL of a text, or none.
func mustURL(text string) frontier.URL {
	if text == "" {
		return frontier.URL{}
	}
	u, err := weburl.Parse(text)
	if err != nil {
		panic(err)
	}
	return u
}
