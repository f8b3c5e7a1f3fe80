package session

import (
	"testing"
	"time"
)

// The distance is the least of the last commits. It falls at once, and grows when all commits of a window took longer.
func TestDistance(t *testing.T) {
	const ms = time.Millisecond
	var d distance
	want := func(least time.Duration, what string) {
		t.Helper()
		if got := d.least(); got != least {
			t.Errorf("%s: %v, want %v", what, got, least)
		}
	}
	add := func(n int, took time.Duration) {
		for range n {
			d.add(took)
		}
	}
	want(0, "before the first commit")
	add(1, 200*ms)
	want(200*ms, "the first commit")
	add(1, 150*ms)
	add(distanceCommits-2, 400*ms)
	want(150*ms, "a whole window")
	add(distanceCommits, 300*ms)
	want(150*ms, "the window after it")
	add(1, 400*ms)
	want(300*ms, "two windows later")
	add(1, 20*ms)
	want(20*ms, "a shorter way")
	add(2*distanceCommits, time.Minute)
	want(mostDistance, "an engine that is slow")
}
