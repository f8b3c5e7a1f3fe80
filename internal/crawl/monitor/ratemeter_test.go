package monitor

import (
	"testing"
	"time"
)

func TestRateMeter(t *testing.T) {
	var p rateMeter
	now := time.Unix(1000, 0)
	if pages, bytes := p.rates(now, 10, 100); pages != 0 || bytes != 0 {
		t.Errorf("rates before the first point: %v, %v", pages, bytes)
	}
	// A hundred pages in each of twenty seconds, then none.
	for i := range int64(20) {
		p.add(now.Add(time.Duration(i)*time.Second), 100*i, 1000*i, 1100*i)
	}
	now = now.Add(20 * time.Second)
	if pages, bytes := p.rates(now, 2000, 20000); pages != 100 || bytes != 1000 {
		t.Errorf("rates %v and %v, want 100 and 1000", pages, bytes)
	}
	for i := range int64(meterPoints) {
		p.add(now.Add(time.Duration(i)*time.Second), 2000, 20000, 22000)
	}
	now = now.Add(meterPoints * time.Second)
	if pages, _ := p.rates(now, 2000, 20000); pages != 0 {
		t.Errorf("%v pages/s %d s after the last page", pages, meterPoints)
	}
}

// The first look at a crawl in which nothing moves knows for how long that has been so.
func TestRateMeterIdleWithoutLooks(t *testing.T) {
	var p rateMeter
	now := time.Unix(1000, 0)
	for i := range 8 {
		p.add(now.Add(time.Duration(i)*time.Second), 1, 10, int64(11+min(i, 2)))
	}
	if got := p.idle(now.Add(8*time.Second), 13); got != 6*time.Second {
		t.Errorf("idle for %v, want 6s", got)
	}
}

func TestRateMeterIdle(t *testing.T) {
	var p rateMeter
	now := time.Unix(1000, 0)
	for _, step := range []struct {
		after time.Duration
		work  int64
		want  time.Duration
	}{
		{0, 0, 0}, // a run that has just begun is not idle
		{3 * time.Second, 0, 3 * time.Second},
		{time.Second, 5, 0},
		{time.Second, 5, time.Second},
		{time.Second, 5, 2 * time.Second},
		{time.Second, 6, 0},
	} {
		now = now.Add(step.after)
		if got := p.idle(now, step.work); got != step.want {
			t.Errorf("idle for %v with work %d, want %v", got, step.work, step.want)
		}
	}
}
