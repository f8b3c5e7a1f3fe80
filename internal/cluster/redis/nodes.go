package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	driver "github.com/gomodule/redigo/redis"
)

const (
	// slots is how many a Redis Cluster has. A key has one of them, and each of them is at one node.
	slots = 16384
	// mostRedirects is how often one call follows nodes that name another one.
	mostRedirects = 5
)

// slotOf is the slot of a key, which follows from what is in braces in it.
func slotOf(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16 // CRC-16/XMODEM
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			high := crc >> 15
			crc = crc<<1 ^ high*0x1021
		}
	}
	return int(crc % slots)
}

// nodes is what is known of the nodes of a Redis Cluster.
type nodes struct {
	mu     sync.Mutex
	owners map[int]string // guarded by mu; the node that has a slot, of slots that were asked for
	given  []string       // nodes in the address
	hosts  []string       // guarded by mu; nodes that can be asked
	asked  int            // guarded by mu; how often they were asked
}

func newNodes(given []string) nodes {
	return nodes{owners: map[int]string{}, given: given, hosts: given}
}

// owner is the node that has a slot, empty if that is not known.
func (n *nodes) owner(slot int) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.owners[slot]
}

func (n *nodes) setOwner(slot int, node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owners[slot] = node
}

// forget lets the next call ask a node who has its slot.
func (n *nodes) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.owners)
}

// toAsk returns the nodes in the order in which they are to be asked. Each time another one is the first: one that is
// cut off from the others may answer with what was true before.
func (n *nodes) toAsk() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := n.asked % len(n.hosts)
	n.asked++
	return slices.Concat(n.hosts[first:], n.hosts[:first])
}

// setHosts says which nodes there are. Those in the address are asked too.
func (n *nodes) setHosts(found []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts = slices.Concat(n.given, found)
	slices.Sort(n.hosts)
	n.hosts = slices.Compact(n.hosts)
}

// atOwner calls fn with a connection to the node of a Redis Cluster that has a key.
//
// A node that answers ASK is handing the slot over, key by key. That answer is not followed: a script would see the
// part of a crawl that has arrived at the other node, and take the rest for lost. All calls get it as long as the slot
// moves, because KEYS[1] is the name of no key. So the crawl waits until the slot is at one node.
func (c *client) atOwner(ctx context.Context, key string, fn func(driver.ConnWithContext) (any, error)) (any, error) {
	slot := slotOf(key)
	for redirects := 0; ; redirects++ {
		node, err := c.findOwner(ctx, slot)
		if err != nil {
			return nil, err
		}
		result, err := c.at(ctx, node, fn)
		if err == nil {
			return result, nil
		}
		answer, _ := errors.AsType[driver.Error](err)
		switch {
		case strings.HasPrefix(string(answer), "ASK "):
			return nil, fmt.Errorf("slot %d of the Redis Cluster is being moved to another node: %w", slot, err)
		case strings.HasPrefix(string(answer), "MOVED ") && redirects < mostRedirects:
			c.nodes.setOwner(slot, movedTo(string(answer), node))
		default:
			c.nodes.forget() // the node may be gone
			return nil, err
		}
	}
}

// movedTo reads an answer such as "MOVED 3999 127.0.0.1:6381". An answer without a host means another port of the host
// that was asked.
func movedTo(answer, asked string) string {
	to := answer[strings.LastIndexByte(answer, ' ')+1:]
	at := strings.LastIndexByte(to, ':')
	if at < 0 {
		return asked
	}
	return hostPort(strings.Trim(to[:at], "[]"), to[at+1:], asked)
}

// hostPort makes the address of a node of what another says, which was asked at an address.
func hostPort(host, port, asked string) string {
	if host == "" {
		host, _, _ = net.SplitHostPort(asked)
	}
	return net.JoinHostPort(host, port)
}

// findOwner returns the node that has a slot.
func (c *client) findOwner(ctx context.Context, slot int) (string, error) {
	if node := c.nodes.owner(slot); node != "" {
		return node, nil
	}
	all, err := c.askSlots(ctx)
	if err != nil {
		return "", err
	}
	for _, r := range all {
		if r.first <= slot && slot <= r.last {
			c.nodes.setOwner(slot, r.node)
			return r.node, nil
		}
	}
	return "", dialError{fmt.Errorf("no node of the Redis Cluster has slot %d", slot)}
}

// masters returns the nodes that have slots, or the server if there is no Redis Cluster.
func (c *client) masters(ctx context.Context) ([]string, error) {
	if !c.address.cluster {
		return []string{theServer}, nil
	}
	all, err := c.askSlots(ctx)
	if err != nil {
		return nil, err
	}
	set := map[string]bool{}
	for _, r := range all {
		set[r.node] = true
	}
	return slices.Sorted(maps.Keys(set)), nil
}

// A slotRange is at one node.
type slotRange struct {
	first, last int
	node        string
}

// askSlots asks the nodes in turn which of them has which slots.
func (c *client) askSlots(ctx context.Context) ([]slotRange, error) {
	var faults []error
	for _, node := range c.nodes.toAsk() {
		all, err := c.askNode(ctx, node)
		if err == nil {
			return all, nil
		}
		faults = append(faults, fmt.Errorf("node %s: %w", node, err))
	}
	return nil, dialError{errors.Join(faults...)}
}

func (c *client) askNode(ctx context.Context, node string) (all []slotRange, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := c.login(ctx, node)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	answer, err := driver.Values(conn.(driver.ConnWithContext).DoContext(ctx, "CLUSTER", "SLOTS"))
	if err != nil {
		return nil, err
	}
	// Each element is: first slot, last slot, master, replicas. A node begins with host and port.
	var d decoder
	var known []string
	for _, v := range answer {
		r := reply(d.list(v))
		first, last := d.int(r.at(0)), d.int(r.at(1))
		for i := 2; i < len(r); i++ {
			pair := reply(d.list(r[i]))
			host, _ := pair.at(0).([]byte) // nil means the host that was asked
			known = append(known, hostPort(string(host), strconv.FormatInt(d.int(pair.at(1)), 10), node))
			if i == 2 {
				all = append(all, slotRange{int(first), int(last), known[len(known)-1]})
			}
		}
	}
	switch {
	case d.err != nil:
		return nil, d.err
	case len(all) == 0:
		return nil, errors.New("it knows no node that has slots")
	}
	c.nodes.setHosts(known)
	return all, nil
}
