package redis

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/cluster"
)

// at is an element of an answer, nil if there is none.
func (r reply) at(i int) any {
	if i >= len(r) {
		return nil
	}
	return r[i]
}

// A decoder reads answers. It remembers the first fault.
type decoder struct{ err error }

func (d *decoder) fault(what string, v any) {
	if d.err == nil {
		d.err = usage("the server's answer has %s that cannot be read: %T", what, v)
	}
}

func (d *decoder) bytes(v any) []byte {
	b, ok := v.([]byte)
	if !ok {
		d.fault("a text", v)
	}
	return b
}

func (d *decoder) text(v any) string { return string(d.bytes(v)) }

func (d *decoder) list(v any) []any {
	l, ok := v.([]any)
	if !ok {
		d.fault("a list", v)
	}
	return l
}

func (d *decoder) int(v any) int64 {
	n, ok := v.(int64)
	if !ok {
		d.fault("a number", v)
	}
	return n
}

func (d *decoder) uint(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		d.fault("a number", text)
	}
	return n
}

func (d *decoder) time(text string) time.Time {
	n := d.uint(text)
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(n))
}

func (d *decoder) micros(text string) time.Duration {
	return time.Duration(d.uint(text)) * time.Microsecond
}

// id reads an identifier, which is zero for "-".
func (d *decoder) id(text string) (id [16]byte) {
	if text == none {
		return id
	}
	if n, err := hex.Decode(id[:], []byte(text)); err != nil || n != len(id) || len(text) != 2*len(id) {
		d.fault("an identifier", text)
	}
	return id
}

// none stands for no session.
const none = "-"

// idText is an identifier as it is stored.
func idText(id [16]byte) string {
	if id == [16]byte{} {
		return none
	}
	return hex.EncodeToString(id[:])
}

// table reads a hash.
func (d *decoder) table(v any) map[string]string {
	list := d.list(v)
	m := make(map[string]string, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		m[d.text(list[i])] = d.text(list[i+1])
	}
	return m
}

// crawl reads the row of a crawl. Elapsed is the time since it was counted.
func (d *decoder) crawl(id cluster.CrawlID, row map[string]string, elapsed string) cluster.Crawl {
	return cluster.Crawl{
		ID: id, Name: row["name"], Seed: d.uint(row["seed"]), Identity: row["identity"], Created: d.time(row["created"]),
		PlanVersion: d.uint(row["plan_version"]), State: cluster.State(row["state"]), Reason: row["reason"],
		Run: d.uint(row["run"]), Level: uint32(d.uint(row["level"])), MaxURLs: d.uint(row["max_urls"]),
		Granted: d.uint(row["granted"]), Used: d.micros(row["used"]) + d.micros(elapsed),
		Begun: cluster.Begun{At: d.time(row["begun"]), Used: d.micros(row["begun_used"]),
			Counted: d.uint(row["begun_counted"])},
	}
}

// member reads a session.
func (d *decoder) member(v any) cluster.Member {
	pair := reply(d.list(v))
	row := d.table(pair.at(1))
	m := cluster.Member{
		Session: d.id(d.text(pair.at(0))), Machine: d.id(row["machine"]), Name: row["name"],
		Joined: d.time(row["joined"]), Since: d.time(row["since"]), Beat: d.time(row["beat"]),
		Beats: d.uint(row["beats"]), Batch: d.uint(row["batch"]), Ended: row["ended"] == "1", Left: row["left"] == "1",
	}
	if text := row["tally"]; text != "" {
		t := &m.Tally
		var batch int64
		if _, err := fmt.Sscan(text, &t.Takeovers, &t.Fenced, &batch, &t.Replaying, &t.RowsLeft, &t.Pages); err != nil {
			d.fault("a tally", text)
		}
		t.Batch = time.Duration(batch) * time.Microsecond
	}
	return m
}

func tallyText(t *cluster.Tally) string {
	return fmt.Sprint(t.Takeovers, t.Fenced, t.Batch.Microseconds(), t.Replaying, t.RowsLeft, t.Pages)
}

// fence is what decides about writes to a partition, as it is stored.
func fence(p *cluster.Part) string {
	return fmt.Sprintf("%s %d %d %d %d", idText(p.Owner), p.Epoch, p.Head.Seq, p.Head.Hash, p.Granted)
}

// fence reads what fence writes.
func (d *decoder) fence(p *cluster.Part, text string) {
	f := strings.Split(text, " ")
	if len(f) != 5 {
		d.fault("a partition", text)
		return
	}
	p.Owner, p.Epoch, p.Granted = d.id(f[0]), d.uint(f[1]), d.uint(f[4])
	p.Head = cluster.Place{Seq: d.uint(f[2]), Hash: d.uint(f[3])}
}

// statusText is what the owner of a partition says about it, as it is stored.
func statusText(s *cluster.PartStatus) string {
	idle := 0
	if s.Idle {
		idle = 1
	}
	return fmt.Sprintf("%d %d %d %d %s", idle, s.Busy, s.Least, s.Counted, s.Counts)
}

// status reads what statusText writes.
func (d *decoder) status(s *cluster.PartStatus, text string) {
	f := strings.SplitN(text, " ", 5)
	if len(f) != 5 {
		d.fault("a status", text)
		return
	}
	s.Idle, s.Busy, s.Least, s.Counted = f[0] == "1", uint32(d.uint(f[1])), uint32(d.uint(f[2])), d.uint(f[3])
	if f[4] != "" {
		s.Counts = []byte(f[4])
	}
}

// idOf is the id of a row, placeOf reads it.
func idOf(p cluster.Place) string { return fmt.Sprintf("%d-%d", p.Seq, p.Hash) }

func (d *decoder) placeOf(id string) cluster.Place {
	seq, hash, _ := strings.Cut(id, "-")
	return cluster.Place{Seq: d.uint(seq), Hash: d.uint(hash)}
}
