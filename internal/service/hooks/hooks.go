package hooks

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// Hooks are all webhooks of a service.
type Hooks struct {
	service   *service.Service
	deliverer *deliverer
}

// New makes the webhooks of a service.
func New(s *service.Service, o Options) *Hooks {
	return &Hooks{service: s, deliverer: newDeliverer(&store{service: s}, o)}
}

// Run delivers until ctx ends.
func (h *Hooks) Run(ctx context.Context) {
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			added := h.service.Events.Added()
			h.deliverer.wakeUp() // for events that came before added was taken
			select {
			case <-ctx.Done():
				return
			case <-added:
			}
		}
	})
	h.deliverer.run(ctx)
	watching.Wait()
}

// testEvent is the type of a delivery that a user asked for to try a webhook.
const testEvent service.EventType = "webhook.test"

// EventTypes are the types of events that a webhook can be told of.
func EventTypes() []service.EventType {
	return []service.EventType{service.CrawlStarted, service.CrawlPaused, service.CrawlFinished, service.QuotaReached}
}

// Input is a new webhook, or a change of one. Fields that are nil stay as they are.
type Input struct {
	URL          *string              `json:"url,omitempty"`
	Events       *[]service.EventType `json:"events,omitempty"` // none means all
	Enabled      *bool                `json:"enabled,omitempty"`
	AllowPrivate *bool                `json:"allow_private,omitempty"` // admins only
	NewSecret    bool                 `json:"new_secret,omitempty"`    // draws another secret
}

// applyTo changes a webhook, and names every fault.
func (in *Input) applyTo(w *service.Webhook, c *service.Caller) error {
	var faults []service.FieldError
	fault := func(field, code, format string, args ...any) {
		faults = append(faults, service.FieldError{Field: field, Code: code, Detail: fmt.Sprintf(format, args...)})
	}
	service.Set(&w.Enabled, in.Enabled)
	if in.URL != nil && *in.URL != w.URL {
		w.URL = *in.URL
		w.AllowPrivate = w.AllowPrivate && c.Has(service.ScopeAdmin) // it was allowed for another address
	}
	if in.AllowPrivate != nil && *in.AllowPrivate != w.AllowPrivate {
		w.AllowPrivate = *in.AllowPrivate
		if w.AllowPrivate && !c.Has(service.ScopeAdmin) {
			fault("allow_private", "not_permitted", "only an admin may allow private addresses")
		}
	}
	if w.URL == "" {
		fault("url", "missing", "give the address that is told of events")
	} else if err := checkURL(w.URL); err != nil {
		fault("url", "invalid", "%v", err)
	} else if why, err := privateAddress(w.URL); err != nil {
		fault("url", "invalid", "%v", err)
	} else if why != "" && !w.AllowPrivate {
		fault("url", "private_address", "it is not a public address (%s); an admin can allow it with allow_private",
			why)
	}
	if in.Events != nil {
		w.Events = slices.Compact(slices.Sorted(slices.Values(*in.Events)))
		in.Events = &w.Events // what is audited names each once
	}
	for _, e := range w.Events {
		if !slices.Contains(EventTypes(), e) {
			fault("events", "invalid", "%q is not one of %s", e, service.Join(EventTypes(), ", "))
		}
	}
	if len(w.Events) == 0 {
		w.Events = EventTypes()
	}
	return service.Invalid("the webhook", faults)
}

// privateAddress says why the address in a URL is not public; empty if it is, or if the host is a name. An address must
// be written in its usual form: programs differ in what they take 127.1 or 0x7f000001 for.
func privateAddress(text string) (string, error) {
	u, err := weburl.Parse(text)
	if err != nil {
		return "", err
	}
	host := strings.Trim(u.Host(), "[]")
	if weburl.IsLocalhost(host) {
		return "loopback", nil
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return "", nil // a name
	}
	if given, err := url.Parse(text); err != nil || !sameAddress(given.Hostname(), addr) {
		return "", fmt.Errorf("its host is the address %s: write it so", addr)
	}
	return fetch.NotPublic(addr), nil
}

func sameAddress(text string, addr netip.Addr) bool {
	given, err := netip.ParseAddr(text)
	return err == nil && given == addr
}

// maxPerAccount bounds the webhooks of an account: each of its events is delivered to each of them.
const maxPerAccount = 50

// Create makes a webhook. The answer has the secret, which is not shown again.
func (h *Hooks) Create(ctx context.Context, c *service.Caller, in Input) (*service.Webhook, error) {
	w := &service.Webhook{ID: service.NewID(), Account: c.Account.ID, Enabled: true,
		CreatedAt: page.Time{Time: time.Now().UTC()}, Secret: newSecret()}
	if err := in.applyTo(w, c); err != nil {
		return nil, err
	}
	last, err := h.service.Events.Last(ctx)
	if err != nil {
		return nil, err
	}
	err = h.service.Add(ctx, func(tx *service.Tx) error {
		n, err := service.Value[int](ctx, tx, "SELECT count(*) FROM webhook WHERE account = ?", w.Account)
		if err != nil {
			return err
		}
		if n >= maxPerAccount {
			return &service.Error{Code: service.ErrPlanLimit,
				Detail: fmt.Sprintf("an account may have %d webhooks: delete one first", maxPerAccount)}
		}
		err = tx.Insert("webhook", columns+", secret, after_event", w.ID, w.Account, w.URL, w.Events, w.Enabled,
			w.AllowPrivate, w.CreatedAt, w.Secret, last)
		return errors.Join(err, tx.Audit(c, "webhook.create", w.ID, nil))
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Edit changes a webhook.
func (h *Hooks) Edit(ctx context.Context, c *service.Caller, id string, in Input) (w *service.Webhook, err error) {
	err = h.service.Add(ctx, func(tx *service.Tx) (err error) {
		if w, err = get(ctx, tx, c, id); err != nil {
			return err
		}
		if err := in.applyTo(w, c); err != nil {
			return err
		}
		if in.NewSecret {
			w.Secret = newSecret()
			if err := tx.Change("UPDATE webhook SET secret = ? WHERE id = ?", w.Secret, id); err != nil {
				return err
			}
		}
		err = tx.Change("UPDATE webhook SET url = ?, events_json = ?, enabled = ?, allow_private = ? WHERE id = ?",
			w.URL, w.Events, w.Enabled, w.AllowPrivate, id)
		return errors.Join(err, tx.Audit(c, "webhook.edit", id, in))
	})
	if err != nil {
		return nil, err
	}
	h.deliverer.forgive(id)
	return w, nil
}

// Delete removes a webhook with its deliveries.
func (h *Hooks) Delete(ctx context.Context, c *service.Caller, id string) error {
	return h.service.Write(ctx, func(tx *service.Tx) error {
		if _, err := get(ctx, tx, c, id); err != nil {
			return err
		}
		return errors.Join(tx.Change("DELETE FROM delivery WHERE webhook = ?", id),
			tx.Change("DELETE FROM webhook WHERE id = ?", id), tx.Audit(c, "webhook.delete", id, nil))
	})
}

// List returns the webhooks of an account, the oldest first; of all accounts if the account is empty.
func (h *Hooks) List(ctx context.Context, account string) ([]service.Webhook, error) {
	return query(ctx, h.service.DB().Read(), "WHERE account = ? OR ? = '' ORDER BY id", account, account)
}

// Get returns a webhook.
func (h *Hooks) Get(ctx context.Context, c *service.Caller, id string) (*service.Webhook, error) {
	return get(ctx, h.service.DB().Read(), c, id)
}

// get returns a webhook that the caller may see.
func get(ctx context.Context, q service.Queryer, c *service.Caller, id string) (*service.Webhook, error) {
	list, err := query(ctx, q, "WHERE id = ?", id)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 || list[0].Account != c.Account.ID && !c.Has(service.ScopeAdmin) {
		return nil, &service.Error{Code: service.ErrNotFound, Detail: "there is no such webhook"}
	}
	return &list[0], nil
}

const columns = "id, account, url, events_json, enabled, allow_private, created_at"

// query returns the webhooks that the condition selects, without their secrets.
func query(ctx context.Context, q service.Queryer, where string, args ...any) ([]service.Webhook, error) {
	return service.Collect(ctx, q, func(w *service.Webhook) []any {
		return []any{&w.ID, &w.Account, &w.URL, &w.Events, &w.Enabled, &w.AllowPrivate, &w.CreatedAt}
	}, "SELECT "+columns+" FROM webhook "+where, args...)
}
