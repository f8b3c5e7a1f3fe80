package state

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/state/internal/record"
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

func key(n uint64) weburl.Key {
	return weburl.Key{Host: weburl.HostID(n << 32), Hi: n * 3, Lo: n * 7}
}

// mustURL is the URL of a text, or none.
func mustURL(text string) weburl.URL {
	if text == "" {
		return weburl.URL{}
	}
	u, err := weburl.Parse(text)
	if err != nil {
		panic(err)
	}
	return u
}

// received returns the last batch of a session that a partition has received, 0 for
// none.
func (s *Store) received(ctx context.Context, p uint8, session [16]byte) (uint64, error) {
	if err := s.Flush(ctx); err != nil {
		return 0, err
	}
	var batch uint64
	m := frontier.Mark{Partition: p, Session: session}
	_, err := s.get(record.MarkKey(&m), func(b []byte) error {
		r := record.ValueReader(b)
		batch = r.Uvarint()
		return r.Done("mark")
	})
	if err != nil {
		return 0, fmt.Errorf("read mark: %w", err)
	}
	return batch, nil
}
