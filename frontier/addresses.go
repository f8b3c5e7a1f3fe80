package frontier

import (
	"net/netip"

	"github.com/mapwright/mapwright/frontier/pace"
)

// addresses are the hosts of a shard that wait for their network address. The frontier does not know the address of a
// host. A lease learns it and tells it by Reach, and its host waits if the address is busy. The other hosts of the
// shard go on.
type addresses struct {
	share *pace.AddressShare // nil for no limit
	hosts map[int32]addressWait
}

// An addressWait is the wait of one host for its address.
type addressWait struct {
	wait  *pace.AddressWait // nil if the host does not wait
	letIn bool              // it is over: the host may try again
	// first: if the host must wait, it goes before the others. It has waited for its robots.txt, and would otherwise
	// wait again behind all others for the first page. Or it is asked for the robots.txt of another host, see
	// robotsPatience.
	first bool
}

// waits reports whether a host waits for its address.
func (a *addresses) waits(i int32) bool {
	if len(a.hosts) == 0 {
		return false
	}
	w := a.hosts[i]
	return w.wait != nil && !w.letIn
}

// wasLetIn reports whether a host has waited for its address, and may now send one request. Further leases of it would
// come back.
func (a *addresses) wasLetIn(i int32) bool {
	if len(a.hosts) == 0 {
		return false
	}
	return a.hosts[i].letIn
}

// leave ends the wait of a host.
func (a *addresses) leave(i int32) {
	if len(a.hosts) == 0 {
		return
	}
	if w := a.hosts[i].wait; w != nil {
		w.Leave()
	}
	delete(a.hosts, i)
}

// goFirst lets a host that waits try again, and go before all others.
func (a *addresses) goFirst(i int32) {
	if a.waits(i) {
		a.leave(i)
		a.hosts[i] = addressWait{first: true}
	}
}

// leaveAll ends the waits of all hosts.
func (a *addresses) leaveAll() {
	for i := range a.hosts {
		a.leave(i)
	}
}

// Reach is called before a connection to an address is tried, and before Start with the address of the connection. If
// it returns an error, the lease must be ended by Done(Result{}), like after an error of Start. After ErrAddressBusy
// the host is leased again when its turn at the address has come. The place that Reach takes at the address belongs to
// the lease until it ends, or until Reach is called with another address. Without Options.Addresses, Reach does
// nothing. It never waits.
func (l *Lease) Reach(addr netip.Addr) error {
	if l.f.o.Addresses == nil {
		return nil
	}
	s := l.s
	s.lock()
	defer s.unlock()
	switch {
	case l.over.Load():
		return ErrDone
	case l.disowned:
		return ErrPartitionClosed
	case l.address != nil && l.address.Is(addr):
		return nil
	}
	l.leaveAddressLocked()
	a := &s.addresses
	before := a.hosts[l.host]
	isHere := before.wait == nil || before.wait.IsFor(addr)
	var wait *pace.AddressWait
	if isHere {
		wait = before.wait
	}
	first := before.first || l.ask != nil
	held, wait := a.share.Take(addr, wait, first, func(w *pace.AddressWait) { s.letIn(l.host, w) })
	if held != nil {
		l.address = held
		if isHere {
			delete(a.hosts, l.host)
			if l.kind == KindRobots && before.wait != nil {
				a.hosts[l.host] = addressWait{first: true}
			}
		} // else the connection may go to the address at which the host has waited, which Reach is told next
		return nil
	}
	if !isHere {
		before.wait.Leave()
	}
	if a.hosts == nil {
		a.hosts = map[int32]addressWait{}
	}
	a.hosts[l.host] = addressWait{wait: wait}
	s.touch(l.host)
	return ErrAddressBusy
}

// letIn ends the wait of a host, whose turn at its address has come.
func (s *shard) letIn(i int32, w *pace.AddressWait) {
	s.lock()
	defer s.unlock()
	if s.addresses.hosts[i].wait == w {
		s.addresses.hosts[i] = addressWait{wait: w, letIn: true}
		s.touch(i)
	}
}

// leaveAddressLocked gives back the place at the address that the lease has, if it has one.
func (l *Lease) leaveAddressLocked() {
	if l.address != nil {
		l.address.Release(l.f.o.Addresses)
		l.address = nil
	}
}
