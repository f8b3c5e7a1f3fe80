package main

import "testing"

func TestGCPercent(t *testing.T) {
	const mb = 1 << 20
	for _, tt := range []struct {
		live uint64
		want int
	}{{0, 400}, {32 * mb, 200}, {64 * mb, 100}, {256 * mb, 100}, {512 * mb, 50}, {1024 * mb, 25}} {
		if got := gcPercent(tt.live); got != tt.want {
			t.Errorf("with %d MB alive GOGC is %d, want %d", tt.live/mb, got, tt.want)
		}
	}
}
