package hosts

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/service"
)

// Host is what is known of a host, as users see it.
type Host struct {
	Host         string    `json:"host"`
	Denied       bool      `json:"denied"`
	DeniedReason string    `json:"denied_reason,omitempty"`
	DeniedAt     page.Time `json:"denied_at,omitzero"`
	// Pace and Crawls tell what crawls of all accounts do, so only admins see them.
	Pace   *Pace       `json:"pace,omitempty"`
	Crawls *CrawlCount `json:"crawls,omitempty"`
}

// Pace is how fast a host is asked, as far as it was learned, by the account whose crawls ask it most slowly. A crawl's
// own settings and robots.txt can make it slower.
type Pace struct {
	Delay       page.Millis `json:"learned_delay_ms"`         // least time between two requests
	Floor       page.Millis `json:"floor_ms"`                 // shorter delays were refused
	LastSuccess page.Time   `json:"last_success_at,omitzero"` // last answer that was no refusal
	RestUntil   page.Time   `json:"rest_until,omitzero"`      // after a refusal; none if the host does not rest
	Backoff     page.Time   `json:"backoff_until,omitzero"`   // after failures
	Refusals    int         `json:"refusals"`                 // in a row
	InFlight    int         `json:"in_flight"`                // requests of all crawls that are under way
}

// CrawlCount is how many running crawls ask a host, and how many of them wait for another one's turn.
type CrawlCount struct {
	Asking  int `json:"asking"`
	Waiting int `json:"waiting"`
}

const (
	// writeEvery is how often changes are written. A host that changes more often is written once.
	writeEvery = 10 * time.Second
	// writeAtOnce is how many hosts are written in one transaction, so that other writers do not wait for long.
	writeAtOnce = 500
)

// Hosts are the hosts of a service.
type Hosts struct {
	service *service.Service
	shared  *crawl.Shared
	log     *slog.Logger
	unsaved map[pace.Learner]pace.Learned // used by Run only: what could not be written yet

	// held while a host is denied or allowed, so that the crawls are told in the order of the database
	denying sync.Mutex
}

// New loads what is known of hosts and gives it to the crawls of a service. The log may be nil.
func New(ctx context.Context, s *service.Service, log *slog.Logger) (*Hosts, error) {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	h := &Hosts{service: s, shared: s.Shared(), log: log, unsaved: map[pace.Learner]pace.Learned{}}
	type row struct {
		pace.Learner
		pace.Learned
		at page.Time
	}
	columns := func(r *row) []any { return []any{&r.Host, &r.Account, &r.Learned, &r.at} }
	list, err := service.Collect(ctx, s.DB().Read(), columns,
		"SELECT host, account, pace, updated_at FROM learned WHERE updated_at > ?", time.Now().Add(-pace.KeepLearned))
	for _, known := range list {
		h.shared.Pace().Remember(known.Learner, known.Learned, known.at.Time)
	}
	return h, errors.Join(err, h.applyDenied(ctx))
}

// Run writes what crawls learn of hosts until ctx ends, and once more then.
func (h *Hosts) Run(ctx context.Context) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			h.save(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			h.save(last)
			return
		}
	}
}

// save writes what has changed. What cannot be written is kept for the next time.
func (h *Hosts) save(ctx context.Context) {
	maps.Copy(h.unsaved, h.shared.Pace().Changes())
	for len(h.unsaved) > 0 {
		if err := h.savePart(ctx); err != nil {
			h.log.Error("cannot write what was learned of hosts; trying again", "hosts", len(h.unsaved), "error", err)
			return
		}
	}
}

// savePart writes some of what has changed. With the last part it removes the rows that are not needed any more.
func (h *Hosts) savePart(ctx context.Context) error {
	var written []pace.Learner
	err := h.service.Write(ctx, func(tx *service.Tx) error {
		written = nil
		for by, l := range h.unsaved {
			if len(written) == writeAtOnce {
				return nil
			}
			var err error
			if l.Delay == 0 && l.Floor == 0 && !l.AskedUntil.After(tx.Now()) { // nothing is left to know
				err = tx.Change("DELETE FROM learned WHERE host = ? AND account = ?", by.Host, by.Account)
			} else {
				err = tx.Put("learned", "host, account", "host, account, pace, updated_at", by.Host, by.Account, l,
					tx.Now())
			}
			if err != nil {
				return err
			}
			written = append(written, by)
		}
		return tx.Change("DELETE FROM learned WHERE updated_at < ?", tx.Now().Add(-pace.KeepLearned))
	})
	if err != nil {
		return err
	}
	for _, by := range written {
		delete(h.unsaved, by)
	}
	return nil
}

// Get says what is known of a host.
func (h *Hosts) Get(ctx context.Context, name string) (*Host, error) {
	name, err := normal(name)
	if err != nil {
		return nil, err
	}
	out, err := service.One(ctx, h.service.DB().Read(), func(h *Host) []any {
		return []any{&h.DeniedReason, &h.DeniedAt}
	}, "SELECT denied_reason, denied_at FROM host WHERE name = ?", name)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	out.Host, out.Denied = name, err == nil
	state, _ := h.shared.Pace().Host(name)
	out.Pace = &Pace{
		Delay: page.Millis(state.Delay), Floor: page.Millis(state.Floor),
		LastSuccess: page.Time{Time: state.LastSuccess.UTC()},
		RestUntil:   page.Time{Time: state.RestUntil.UTC()}, Backoff: page.Time{Time: state.BackoffUntil.UTC()},
		Refusals: state.Refusals, InFlight: state.Inflight,
	}
	out.Crawls = &CrawlCount{Asking: state.Crawls, Waiting: state.Waiting}
	return &out, nil
}

// List returns the hosts that are denied or need a slower pace, in the order of their names. Cursor is the last name of
// the part before; limit 0 means 100, at most 1000.
func (h *Hosts) List(ctx context.Context, cursor string, limit int) (list service.List[*Host], err error) {
	limit = min(cmp.Or(limit, 100), 1000)
	names, err := h.names(ctx, "SELECT name FROM host WHERE name > ?1 UNION SELECT host FROM learned WHERE host > ?1 "+
		"ORDER BY 1 LIMIT ?2", cursor, limit+1)
	if err != nil {
		return list, err
	}
	if len(names) > limit {
		names = names[:limit]
		list.NextCursor = names[limit-1]
	}
	list.Items = []*Host{}
	for _, name := range names {
		host, err := h.Get(ctx, name)
		if err != nil {
			return list, err
		}
		list.Items = append(list.Items, host)
	}
	return list, nil
}

func (h *Hosts) names(ctx context.Context, query string, args ...any) ([]string, error) {
	return service.Collect(ctx, h.service.DB().Read(), service.Column[string], query, args...)
}

// Deny ends all requests to a host, in all crawls: its URLs become host_blocked. The name may be *.example.com for all
// hosts below a domain. Only an admin may do so.
func (h *Hosts) Deny(ctx context.Context, c *service.Caller, name, reason string) (*Host, error) {
	if len(reason) > maxReason {
		return nil, &service.Error{Code: service.ErrInvalid, Detail: "the request has faults",
			Fields: []service.FieldError{{Field: "reason", Code: "too_long",
				Detail: fmt.Sprintf("it has more than %d bytes", maxReason)}}}
	}
	return h.change(ctx, c, "host.deny", name, func(tx *service.Tx, name string) error {
		return tx.Put("host", "name", "name, denied_reason, denied_at", name, reason, tx.Now())
	})
}

// maxReason bounds the reason of a denial, in bytes.
const maxReason = 500

// Allow ends a denial. Crawls that have blocked the host try it again when they are resumed.
func (h *Hosts) Allow(ctx context.Context, c *service.Caller, name string) (*Host, error) {
	return h.change(ctx, c, "host.allow", name, func(tx *service.Tx, name string) error {
		// earlier versions stored a dot at the end
		return tx.Change("DELETE FROM host WHERE name IN (?, ?)", name, name+".")
	})
}

// change changes a host for an admin. The crawls are told after it is durable.
func (h *Hosts) change(ctx context.Context, c *service.Caller, action, name string,
	fn func(tx *service.Tx, name string) error) (*Host, error) {
	if !c.Has(service.ScopeAdmin) {
		return nil, &service.Error{Code: service.ErrForbidden, Detail: "only an admin may deny or allow a host"}
	}
	name, err := normal(name)
	if err != nil {
		return nil, err
	}
	h.denying.Lock()
	defer h.denying.Unlock()
	err = h.service.Write(ctx, func(tx *service.Tx) error {
		return errors.Join(fn(tx, name), tx.Audit(c, action, name, nil))
	})
	if err != nil {
		return nil, err
	}
	if err := h.applyDenied(ctx); err != nil {
		return nil, err
	}
	return h.Get(ctx, name)
}

// applyDenied tells the crawls which hosts are denied.
func (h *Hosts) applyDenied(ctx context.Context) error {
	names, err := h.names(ctx, "SELECT name FROM host")
	if err != nil {
		return err
	}
	return h.shared.Deny(names)
}

// normal is the form in which a host, or *. and a domain, is stored.
func normal(name string) (string, error) {
	names, err := config.NormalHosts([]string{name})
	if err != nil {
		return "", &service.Error{Code: service.ErrInvalid, Detail: "the host is not valid",
			Fields: []service.FieldError{{Field: "host", Code: "bad_value", Detail: err.Error()}}}
	}
	return names[0], nil
}
