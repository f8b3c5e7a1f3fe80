package crawl

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

func TestBreakerPausesAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &breaker{log: slog.New(slog.DiscardHandler)}
		waited := func() time.Duration {
			start := time.Now()
			if err := b.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			return time.Since(start)
		}
		if got := waited(); got != 0 {
			t.Errorf("waits %v though nothing happened", got)
		}
		for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			b.trip(errors.New("no files left"))
			b.trip(errors.New("once more, in the same pause"))
			if reason, left, _ := b.state(); reason != "no files left" || left != want*time.Second {
				t.Errorf("pauses for %v because of %q, want %ds", left, reason, want)
			}
			if got := waited(); got != want*time.Second {
				t.Errorf("waits %v, want %ds", got, want)
			}
		}
		b.ok()
		b.trip(errors.New("again"))
		if got := waited(); got != time.Second {
			t.Errorf("after a success: waits %v, want 1s", got)
		}
		if _, _, trips := b.state(); trips != 8 {
			t.Errorf("%d trips, want 8", trips)
		}
	})
}
