package fetch

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

const (
	// raceDelay is the head start of an address before the next one is tried
	// beside it (RFC 8305's connection attempt delay).
	raceDelay = 250 * time.Millisecond

	// maxRace bounds how many addresses of one host are tried.
	maxRace = 6
)

// race connects to the first address that answers. Addresses start one after the
// other, each as soon as the one before it has failed or had its head start, and
// all of them have ended when race returns.
func (t *target) race(ctx context.Context, network string) (net.Conn, error) {
	addrs := interleave(t.addrs)
	if err := t.sockets.take(ctx, 1); err != nil {
		return nil, err
	}
	if len(addrs) == 1 {
		return t.dial(ctx, network, addrs[0])
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var (
		next, running int
		won           net.Conn
		failed        error
	)
	for next < len(addrs) || running > 0 {
		var start <-chan time.Time
		if next < len(addrs) && won == nil {
			start = timer.C
		}
		select {
		case <-start:
			if next > 0 && running > 0 && !t.sockets.tryTake() {
				timer.Reset(raceDelay) // the attempts under way go on alone
				break
			}
			if next > 0 && running == 0 {
				if err := t.sockets.take(ctx, 1); err != nil {
					failed, next = graver(failed, err), len(addrs)
					break
				}
			}
			addr := addrs[next]
			next++
			running++
			go func() {
				conn, err := t.dial(ctx, network, addr)
				results <- result{conn, err}
			}()
			timer.Reset(raceDelay)
		case r := <-results:
			running--
			switch {
			case r.err == nil && won == nil:
				won, next = r.conn, len(addrs)
				cancel()
			case r.err == nil:
				r.conn.Close()
			default:
				failed = graver(failed, r.err)
				timer.Reset(0)
			}
		}
	}
	if won != nil {
		return won, nil
	}
	return nil, failed
}

// graver picks the error that says most about a host: one that came from its
// network over one that never left this machine, and the earlier of two such,
// because later ones are often only cancelled.
func graver(a, b error) error {
	if a == nil || gravity(b) > gravity(a) {
		return b
	}
	return a
}

func gravity(err error) int {
	_, refused := errors.AsType[*AddressError](err)
	switch {
	case refused:
		return 0
	case isOurs(err):
		return 2
	case isNoRoute(err):
		return 1
	}
	return 3
}

// interleave orders addresses by taking turns between the families, beginning
// with that of the first, and keeps maxRace of them.
func interleave(addrs []netip.Addr) []netip.Addr {
	if len(addrs) < 2 {
		return addrs
	}
	var first, second []netip.Addr
	for _, a := range addrs {
		if a.Unmap().Is4() == addrs[0].Unmap().Is4() {
			first = append(first, a)
		} else {
			second = append(second, a)
		}
	}
	var out []netip.Addr
	for len(out) < maxRace && len(first)+len(second) > 0 {
		if len(first) > 0 {
			out, first = append(out, first[0]), first[1:]
		}
		first, second = second, first
	}
	return out
}
