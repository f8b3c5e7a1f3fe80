package main

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestSignalSteps gives signals at chosen times to a run that ends at a chosen time, or not at all.
func TestSignalSteps(t *testing.T) {
	const never = time.Hour
	type step struct {
		what string
		at   time.Duration
	}
	tests := []struct {
		name    string
		signals []time.Duration
		ends    time.Duration
		want    []step
	}{
		{"none", nil, 5 * time.Second, nil},
		{"one", []time.Duration{time.Second}, 5 * time.Second, []step{{"interrupt", time.Second}}},
		{"several at once", []time.Duration{time.Second, time.Second, 1100 * time.Millisecond, 1999 * time.Millisecond},
			5 * time.Second, []step{{"interrupt", time.Second}}},
		{"two, and the run ends", []time.Duration{0, 3 * time.Second}, 3400 * time.Millisecond,
			[]step{{"interrupt", 0}, {"leave", 3 * time.Second}}},
		{"two, and the run does not end", []time.Duration{0, time.Second}, never,
			[]step{{"interrupt", 0}, {"leave", time.Second}, {"exit", time.Second + leaveWithin}}},
		{"three, the second too early", []time.Duration{0, 900 * time.Millisecond, 2 * time.Second}, never,
			[]step{{"interrupt", 0}, {"leave", 2 * time.Second}, {"exit", 2*time.Second + leaveWithin}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var got []step
				record := func(what string) func() {
					return func() { got = append(got, step{what, time.Since(began)}) }
				}
				signals, ended, over := make(chan os.Signal, 2), make(chan struct{}), make(chan struct{})
				go func() {
					defer close(over)
					takeSteps(signals, ended, func(os.Signal) { record("interrupt")() }, record("leave"), record("exit"))
				}()
				for _, at := range tt.signals {
					time.Sleep(at - time.Since(began))
					signals <- syscall.SIGINT
					synctest.Wait()
				}
				time.Sleep(tt.ends - time.Since(began))
				close(ended)
				<-over
				if !slices.Equal(got, tt.want) {
					t.Errorf("%v, want %v", got, tt.want)
				}
			})
		})
	}
}
