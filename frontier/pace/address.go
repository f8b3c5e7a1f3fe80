package pace

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// addressInflight is how many requests to one address may be under way, over all hosts that have the address.
	addressInflight = 8
	// addressGap is the least time between two starts of requests to one address: ten a second.
	addressGap = 100 * time.Millisecond
	// arrival is how long a host that was let in counts as a request under way before its request starts. After that
	// the next host is let in.
	arrival = int64(time.Second)
)

// Addresses keeps the pace of network addresses, for all hosts that have the same address and all crawls of the
// process. A host whose request must wait stands in the line of its address. The line lets hosts in one at a time, at
// the pace of the address. Accounts take turns, and the crawls of an account take turns among each other. A request may
// take half an hour, so turns are not enough: each account leaves places to others.
//
// Its lock is a leaf: under it nothing else is locked but what the function given to Share locks. Hosts are woken
// without it, by a timer of their address.
type Addresses struct {
	epoch time.Time

	mu     sync.Mutex // guards everything below, all addresses and all waits
	byAddr map[netip.Addr]*Address
	unused []*Address // addresses that had nothing under way when they were added; each once
}

// NewAddresses returns an empty Addresses.
func NewAddresses() *Addresses {
	return &Addresses{epoch: time.Now(), byAddr: map[netip.Addr]*Address{}}
}

// An AddressShare is what one crawl may use of every address.
type AddressShare struct {
	of       *Addresses
	account  string
	machines func() int
}

// Share makes the share of a crawl. account names whose crawl it is; empty means that there are no other accounts, so
// the crawl may have all places. machines says how many machines take part in the crawl now, and each of them uses
// an equal part of the limits; nil means one. It is called with a lock held, and must not wait.
func (a *Addresses) Share(account string, machines func() int) *AddressShare {
	return &AddressShare{a, account, machines}
}

// terms are how many requests the crawl may have under way at one address, and the least time between two starts.
func (s *AddressShare) terms() (limit int, gap int64) {
	n := 1
	if s.machines != nil {
		n = max(1, s.machines())
	}
	return max(1, addressInflight/n), int64(n) * int64(addressGap)
}

// Len is the number of addresses of which anything is kept.
func (a *Addresses) Len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.byAddr)
}

func (a *Addresses) now() int64 { return int64(time.Since(a.epoch)) + 1 } // not 0

// addressLocked returns the address, or makes it. Then it looks at some unused addresses, and forgets those whose gap
// is over. It looks at more addresses than it makes, so their number is bounded by that of the addresses in use.
func (a *Addresses) addressLocked(addr netip.Addr, now int64) *Address {
	addr = addr.Unmap()
	if at := a.byAddr[addr]; at != nil {
		return at
	}
	for range min(2, len(a.unused)) {
		old := a.unused[0]
		a.unused = a.unused[1:]
		switch {
		case old.isUsed():
			old.listed = false
		case old.next <= now:
			delete(a.byAddr, old.addr)
		default:
			a.unused = append(a.unused, old)
		}
	}
	at := &Address{of: a, addr: addr}
	a.byAddr[addr] = at
	return at
}

// An Address is a network address with its requests. Take returns it for a request, which Release ends.
type Address struct {
	of   *Addresses
	addr netip.Addr

	inflight int                            // requests under way
	under    [addressInflight]*AddressShare // whose requests they are, in any order; nil after the last
	next     int64                          // when the next request may start
	// lines are the hosts that wait, by crawl. The first whose account has room is the next whose host is let in. No
	// line is empty, but those who have left are in it.
	lines []*addressLine
	// coming are the waits that were let in within the last second and have not started their request, oldest first.
	coming []*AddressWait
	let    int64 // when a wait was last let in
	timer  *time.Timer
	armed  int64 // when the timer fires, 0 if it will not
	listed bool  // in unused
}

// An addressLine is the hosts of one crawl that wait for an address, the first to be let in first.
type addressLine struct {
	share *AddressShare
	waits []*AddressWait
}

// An AddressWait is one host of a crawl in the line of an address.
type AddressWait struct {
	at    *Address
	share *AddressShare
	wake  func(*AddressWait)
	let   int64 // when it was let in, 0 while it stands in the line
	left  bool  // it is over
}

// Take starts a request to the address, and returns the Address, or has the host wait. w is the host's wait for this
// address so far; nil if there is none. wake is called without locks when the host is let in:
// the host then calls Take again with its wait. A host that is let in and comes too late keeps its place: if it must
// wait again, it is the first. first is for a host that comes back at once: if it must wait, it goes before the others
// of its crawl.
func (s *AddressShare) Take(addr netip.Addr, w *AddressWait, first bool, wake func(*AddressWait)) (*Address,
	*AddressWait) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	now := s.of.now()
	a := s.of.addressLocked(addr, now)
	if w != nil && w.left {
		w = nil
	}
	a.expireLocked(now)
	isLet := w != nil && w.let > 0
	if isLet {
		a.arrivedLocked(w)
	}
	limit, gap := s.terms()
	if a.next <= now && (isLet && a.hasRoomLocked(s.account, limit, nil) ||
		len(a.lines) == 0 && a.hasRoomLocked(s.account, limit, a.coming)) {
		if w != nil {
			w.left = true
		}
		a.under[a.inflight] = s
		a.inflight++
		a.next = now + gap
		a.settleLocked(now)
		return a, nil
	}
	if isLet {
		w.let = 0
		a.queueLocked(w, true)
	} else if w == nil {
		w = &AddressWait{at: a, share: s, wake: wake}
		a.queueLocked(w, first)
	}
	a.settleLocked(now)
	return nil, w
}

// Is reports whether it is this address.
func (a *Address) Is(addr netip.Addr) bool { return a.addr == addr.Unmap() }

// Repeat starts a further request in the place of one that Take has started, and reports whether it may.
func (a *Address) Repeat(s *AddressShare) bool {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	now := a.of.now()
	_, gap := s.terms()
	if a.next > now {
		return false
	}
	a.next = now + gap
	return true
}

// Release ends a request that Take of the same share has started.
func (a *Address) Release(s *AddressShare) {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	i := slices.Index(a.under[:a.inflight], s)
	a.inflight--
	a.under[i], a.under[a.inflight] = a.under[a.inflight], nil
	a.settleLocked(a.of.now())
}

// IsFor reports whether the wait is for this address.
func (w *AddressWait) IsFor(addr netip.Addr) bool { return w.at.Is(addr) }

// Leave ends a wait. The place in the line is lost.
func (w *AddressWait) Leave() {
	w.at.of.mu.Lock()
	defer w.at.of.mu.Unlock()
	w.leaveLocked()
}

func (w *AddressWait) leaveLocked() {
	if w.left {
		return
	}
	w.left = true
	if w.let > 0 {
		w.at.arrivedLocked(w)
		w.at.settleLocked(w.at.of.now())
	}
}

func (a *Address) isUsed() bool { return a.inflight > 0 || len(a.lines) > 0 || len(a.coming) > 0 }

// hasRoomLocked reports whether an account may have one more of so many places, beside those who are coming. It has at
// most three quarters of the places, and the last free place is for an account that has none.
func (a *Address) hasRoomLocked(account string, places int, coming []*AddressWait) bool {
	free := places - a.inflight - len(coming)
	if free <= 0 || account == "" {
		return free > 0
	}
	held := 0
	for _, s := range a.under[:a.inflight] {
		if s.account == account {
			held++
		}
	}
	for _, w := range coming {
		if w.share.account == account {
			held++
		}
	}
	return held == 0 || free > 1 && held < places*3/4
}

// queueLocked puts a wait into the line of its crawl.
func (a *Address) queueLocked(w *AddressWait, first bool) {
	i := slices.IndexFunc(a.lines, func(l *addressLine) bool { return l.share == w.share })
	if i < 0 {
		i = len(a.lines)
		a.lines = append(a.lines, &addressLine{share: w.share})
	}
	l := a.lines[i]
	if first {
		l.waits = slices.Insert(l.waits, 0, w)
	} else {
		l.waits = append(l.waits, w)
	}
}

// turnLocked returns the first line whose account has room, and the least time between two starts of its crawl; nil if
// there is none. It removes waits that have left from the heads of the lines that it looks at, and lines that have no
// others.
func (a *Address) turnLocked() (line *addressLine, gap int64) {
	for i := 0; i < len(a.lines); {
		l := a.lines[i]
		for len(l.waits) > 0 && l.waits[0].left {
			l.waits[0] = nil
			l.waits = l.waits[1:]
		}
		if len(l.waits) == 0 {
			a.lines = slices.Delete(a.lines, i, i+1)
			continue
		}
		if limit, gap := l.share.terms(); a.hasRoomLocked(l.share.account, limit, a.coming) {
			return l, gap
		}
		i++
	}
	return nil, 0
}

// endTurnLocked puts the lines of the account that had the turn behind those of others, and the crawl that had it
// behind the others of the account.
func (a *Address) endTurnLocked(had *addressLine) {
	rank := func(l *addressLine) int {
		switch {
		case l == had:
			return 2
		case l.share.account == had.share.account:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(a.lines, func(l, other *addressLine) int { return rank(l) - rank(other) })
	if last := len(a.lines) - 1; len(had.waits) == 0 {
		a.lines = slices.Delete(a.lines, last, last+1)
	}
}

// expireLocked removes the waits from coming that have not come in time.
func (a *Address) expireLocked(now int64) {
	for len(a.coming) > 0 && a.coming[0].let+arrival <= now {
		a.coming = slices.Delete(a.coming, 0, 1)
	}
}

// arrivedLocked removes a wait from coming, if it is there.
func (a *Address) arrivedLocked(w *AddressWait) {
	if i := slices.Index(a.coming, w); i >= 0 {
		a.coming = slices.Delete(a.coming, i, i+1)
	}
}

// nextLocked returns the line whose turn it is, and when its first wait may be let in. If no line has room, the time is
// when to look again: Never if that depends on other calls.
func (a *Address) nextLocked(now int64) (*addressLine, int64) {
	a.expireLocked(now)
	if l, gap := a.turnLocked(); l != nil {
		return l, max(a.next, a.let+gap)
	}
	if len(a.coming) > 0 {
		return nil, a.coming[0].let + arrival
	}
	return nil, Never
}

// settleLocked is called after every change. It sets the timer to fire when the next wait may be let in, or before. If
// the address is not in use, it is listed to be forgotten.
func (a *Address) settleLocked(now int64) {
	_, at := a.nextLocked(now)
	if !a.isUsed() && !a.listed {
		a.listed = true
		a.of.unused = append(a.of.unused, a)
	}
	if at == Never || a.armed != 0 && a.armed <= at {
		return
	}
	a.armed = at
	if d := time.Duration(max(0, at-now)); a.timer == nil {
		a.timer = time.AfterFunc(d, a.fire)
	} else {
		a.timer.Reset(d)
	}
}

// fire lets the next wait in, if its time has come, and wakes its host.
func (a *Address) fire() {
	if w := a.letIn(); w != nil {
		w.wake(w)
	}
}

func (a *Address) letIn() (w *AddressWait) {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.armed = 0
	now := a.of.now()
	if l, at := a.nextLocked(now); l != nil && at <= now {
		w = l.waits[0]
		l.waits[0] = nil
		l.waits = l.waits[1:]
		a.endTurnLocked(l)
		w.let, a.let = now, now
		a.coming = append(a.coming, w)
	}
	a.settleLocked(now)
	return w
}
