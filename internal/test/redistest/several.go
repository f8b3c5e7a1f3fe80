package redistest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	driver "github.com/gomodule/redigo/redis"
)

// Sentinels watch servers and put a replica in the place of one that does not answer.
type Sentinels []*Server

// StartSentinels starts so many sentinels. Remove ends them.
func StartSentinels(number int) (Sentinels, error) {
	var list Sentinels
	for range number {
		s, err := start(&Server{sentinel: true})
		if err != nil {
			return nil, errors.Join(err, list.Remove())
		}
		list = append(list, s)
	}
	return list, nil
}

// Watch lets the sentinels watch a master at a port under a name. They replace it when it does not answer for so long.
// It returns when they know its replicas and each other; before that there is no failover.
func (l Sentinels) Watch(name string, port int, after time.Duration) error {
	master := &Server{port: port}
	role, err := driver.Values(master.Do("ROLE"))
	if err != nil || len(role) < 3 {
		return fmt.Errorf("the role of the master is %v: %w", role, err)
	}
	replicas, err := driver.Values(role[2], nil)
	if err != nil {
		return err
	}
	for _, s := range l {
		if _, err := s.Do("SENTINEL", "MONITOR", name, "127.0.0.1", port, len(l)/2+1); err != nil {
			return err
		}
		if _, err := s.Do("SENTINEL", "SET", name, "down-after-milliseconds", after.Milliseconds(), "failover-timeout",
			5*after.Milliseconds()); err != nil {
			return err
		}
	}
	for _, s := range l {
		err := Await("a sentinel knows the replicas and the others", func() (bool, error) {
			facts, err := driver.StringMap(s.Do("SENTINEL", "MASTER", name))
			return facts["num-slaves"] == strconv.Itoa(len(replicas)) &&
				facts["num-other-sentinels"] == strconv.Itoa(len(l)-1), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// URL is the address of the server that the sentinels watch under a name.
func (l Sentinels) URL(name string) string { return "redis+sentinel://" + addresses(l) + "/" + name }

// Remove kills the sentinels and deletes their directories.
func (l Sentinels) Remove() error { return removeAll(l) }

func addresses(list []*Server) string {
	var hosts []string
	for _, s := range list {
		hosts = append(hosts, s.Addr())
	}
	return strings.Join(hosts, ",")
}

func removeAll(list []*Server) error {
	var faults []error
	for _, s := range list {
		faults = append(faults, s.Remove())
	}
	return errors.Join(faults...)
}

// A Cluster is a Redis Cluster.
type Cluster struct {
	Nodes []*Server // the masters at the beginning, then their replicas in the same order
	Lines []*Proxy  // in front of the nodes, in the same order; none unless they were asked for
}

// slots is how many a Redis Cluster has.
const slots = 16384

// StartCluster makes a Redis Cluster whose masters have equal parts of the slots, each with one replica if that is
// wanted. A replica takes the place of a master that does not answer for two seconds. With proxied, nodes name the
// addresses of proxies to their clients. Settings are as those of Start. Remove ends it.
func StartCluster(masters int, replicas, proxied bool, settings ...string) (*Cluster, error) {
	c := &Cluster{}
	err := c.start(masters, replicas, proxied, settings)
	if err != nil {
		return nil, errors.Join(err, c.Remove())
	}
	return c, nil
}

func (c *Cluster) start(masters int, replicas, proxied bool, settings []string) error {
	number := masters
	if replicas {
		number = 2 * masters
	}
	for n := range number {
		// A replica tries to become master however long it was behind.
		s, err := start(&Server{bus: 1, settings: append([]string{"--cluster-node-timeout", "2000",
			"--cluster-replica-validity-factor", "0", "--cluster-allow-replica-migration", "no"}, settings...)})
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, s)
		if proxied {
			p, err := NewProxy(s)
			if err != nil {
				return err
			}
			c.Lines = append(c.Lines, p)
			if _, err := s.Do("CONFIG", "SET", "cluster-announce-port", p.Addr().Port); err != nil {
				return err
			}
		}
		if _, err := s.Do("CLUSTER", "SET-CONFIG-EPOCH", n+1); err != nil {
			return err
		}
		if n < masters {
			if _, err := s.Do("CLUSTER", "ADDSLOTSRANGE", n*slots/masters, (n+1)*slots/masters-1); err != nil {
				return err
			}
		}
		if n > 0 {
			if _, err := s.Do("CLUSTER", "MEET", "127.0.0.1", c.Nodes[0].port, c.Nodes[0].bus); err != nil {
				return err
			}
		}
	}
	if err := c.Agree(number, 0); err != nil || !replicas {
		return err
	}
	for n, s := range c.Nodes[masters:] {
		id, err := driver.String(c.Nodes[n].Do("CLUSTER", "MYID"))
		if err != nil {
			return err
		}
		if _, err := s.Do("CLUSTER", "REPLICATE", id); err != nil {
			return err
		}
		if err := Await("the replica is connected", s.Follows); err != nil {
			return err
		}
	}
	return c.Agree(number, 1)
}

// Agree waits until each node knows so many nodes, and of each master so many replicas.
func (c *Cluster) Agree(number, replicas int) error {
	for _, s := range c.Nodes {
		err := Await("the nodes know each other", func() (bool, error) {
			info, err := driver.String(s.Do("CLUSTER", "INFO"))
			if !strings.Contains(info, "cluster_state:ok\r\n") ||
				!strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r\n", number)) {
				return false, err
			}
			ranges, err := driver.Values(s.Do("CLUSTER", "SLOTS"))
			for _, r := range ranges {
				if list, _ := driver.Values(r, nil); len(list) != 3+replicas {
					return false, err
				}
			}
			return true, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// URL is the address of the cluster, with all its nodes.
func (c *Cluster) URL() string {
	if len(c.Lines) == 0 {
		return "redis+cluster://" + addresses(c.Nodes)
	}
	var hosts []string
	for _, p := range c.Lines {
		hosts = append(hosts, p.Addr().String())
	}
	return "redis+cluster://" + strings.Join(hosts, ",")
}

// Owner returns the node that has the slot of a key, nil if none says so now.
func (c *Cluster) Owner(key string) *Server {
	for _, s := range c.Nodes {
		if _, err := s.Do("EXISTS", key); err == nil {
			return s
		}
	}
	return nil
}

// Remove kills all nodes and deletes their directories.
func (c *Cluster) Remove() error {
	var faults []error
	for _, p := range c.Lines {
		faults = append(faults, p.Close())
	}
	return errors.Join(append(faults, removeAll(c.Nodes))...)
}
