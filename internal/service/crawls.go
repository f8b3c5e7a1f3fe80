package service

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/datadir"
)

// Crawls are the crawls of the service. A caller without the scope admin finds those of its account only; other scopes
// are checked by the caller of its methods.
type Crawls struct {
	s         *Service
	dispatch  *dispatcher
	searching chan struct{} // has one for each search that reads crawls now
}

func newCrawls(s *Service) *Crawls {
	return &Crawls{s: s, dispatch: newDispatcher(s), searching: make(chan struct{}, mostSearching)}
}

const (
	maxPriority     = 9
	defaultPriority = 5
	maxStarts       = 10_000
	maxStartLength  = 4096    // bytes
	maxStartBytes   = 1 << 20 // of all start URLs of a crawl
	maxLabels       = 20
	maxFaults       = 100    // that a refusal names of one kind
	mostQueued      = 10_000 // crawls of an account, if its plan has no limit; each step of the dispatcher reads all
	maxKeyLength    = 255    // bytes of an idempotency key
	keepIdempotency = 24 * time.Hour
)

// Submit accepts a crawl. Once it returns, the crawl is durable and can be read. If key is not empty, it is an
// idempotency key: the same submission with the same key within 24 hours has the same answer and makes no other crawl.
// Another submission with the key is refused.
func (c *Crawls) Submit(ctx context.Context, caller *Caller, sub Submission, key string) (*Crawl, error) {
	if len(key) > maxKeyLength {
		return nil, Invalid("the request", []FieldError{{"Idempotency-Key", "too_long",
			fmt.Sprintf("it has %d bytes, at most %d are allowed", len(key), maxKeyLength)}})
	}
	sum := sha256.Sum256([]byte(ToJSON(sub)))
	hash := hex.EncodeToString(sum[:])
	// A repeated request has its answer also if it would be refused now, because a plan or a grant has changed.
	answer, err := c.findIdempotent(ctx, c.s.db.Read(), caller.Account.ID, key, hash, time.Now())
	if err != nil {
		return nil, err
	}
	for {
		r, judged, err := c.judge(ctx, caller, &sub)
		if answer == nil && err == nil {
			answer, err = c.add(ctx, caller, r, judged, key, hash)
		}
		switch {
		case answer != nil:
			return answer.withInput(&sub, r), nil
		case !errors.Is(err, errChanged):
			return nil, err
		}
	}
}

// judge makes the row of a submission, or names every fault of it. It returns the rights of the account, by which it was
// judged. They can be others than when the request began, since its body may come slowly.
func (c *Crawls) judge(ctx context.Context, caller *Caller, sub *Submission) (*row, rights, error) {
	judged, err := rightsOf(ctx, c.s.db.Read(), caller.Account.ID)
	if err != nil {
		return nil, "", err
	}
	now := *caller
	if now.Account, err = getAccount(ctx, c.s.db.Read(), caller.Account.ID); err != nil {
		return nil, "", err
	}
	r, err := c.newRow(ctx, &now, sub)
	return r, judged, err
}

// deleteOldAnswers must find them by an index, since all who write wait for its transaction.
const deleteOldAnswers = "DELETE FROM idempotency WHERE created_at < ?"

// add stores a submission, unless one with the same idempotency key was stored. It returns errChanged if the rights of
// the account are others than those by which the submission was judged.
func (c *Crawls) add(ctx context.Context, caller *Caller, r *row, judged rights, key, hash string) (*Crawl, error) {
	input := r.encodeInput()
	var answer *Crawl
	err := c.s.Add(ctx, func(tx *Tx) (err error) {
		if answer, err = c.findIdempotent(ctx, tx, caller.Account.ID, key, hash, tx.now); err != nil || answer != nil {
			return err
		}
		if err := tx.checkRights(r.Account, judged); err != nil {
			return err
		}
		if err := checkQueueLength(ctx, tx, r.Account); err != nil {
			return err
		}
		r.CreatedAt = TimeOf(Millis(tx.now))
		r.queuedAt = Millis(tx.now)
		answer = c.show(r)
		if key != "" {
			kept := *answer
			// A repeat has the same. These rows stay when the crawl is deleted, and count for no account.
			kept.Name, kept.Labels, kept.StartURLs, kept.Settings = "", nil, nil, nil
			err := errors.Join(tx.Change(deleteOldAnswers, tx.now.Add(-keepIdempotency)),
				tx.Insert("idempotency", "account, key, request_hash, crawl, created_at, answer_json", r.Account, key,
					hash,
					r.ID, tx.now, kept))
			if err != nil {
				return err
			}
		}
		return errors.Join(r.insert(tx, input), r.move(tx, caller.Actor(), CrawlQueued, nil),
			tx.Audit(caller, "crawl.submit", r.ID, nil))
	})
	if err != nil {
		return nil, err
	}
	c.dispatch.wake()
	return answer, nil
}

// withInput adds what a repeated request says to its stored answer, which has none of it. r is nil if the plan refuses
// the request now; the answer has no settings then.
func (a *Crawl) withInput(sub *Submission, r *row) *Crawl {
	if a.StartURLs == nil { // an earlier version stored them
		a.Name, a.Labels, a.StartURLs = sub.Name, append([]string{}, sub.Labels...), FirstStarts(sub.StartURLs)
	}
	if a.Settings == nil && r != nil {
		a.Settings = r.Settings
	}
	return a
}

// Check names every fault of a submission, without making a crawl.
func (c *Crawls) Check(ctx context.Context, caller *Caller, sub Submission) error {
	_, _, err := c.judge(ctx, caller, &sub)
	return err
}

// findIdempotent returns the answer to the request that came with an idempotency key within the last 24 hours, or nil.
// An empty key finds none.
func (c *Crawls) findIdempotent(ctx context.Context, q Queryer, account, key, hash string, now time.Time) (*Crawl,
	error) {
	if key == "" {
		return nil, nil
	}
	var had, id string
	answer, err := One(ctx, q, func(answer **Crawl) []any { return []any{&had, &id, answer} },
		"SELECT request_hash, crawl, answer_json FROM idempotency WHERE account = ? AND key = ? AND created_at >= ?",
		account, key, now.Add(-keepIdempotency))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	case had != hash:
		return nil, &Error{Code: ErrReused,
			Detail: "this Idempotency-Key came with another request within the last 24 hours: use a new one",
			Fields: []FieldError{{"Idempotency-Key", "reused", "it belongs to crawl " + id}}}
	}
	if answer == nil { // it was made before answers were kept
		r, err := getRow(ctx, q, account, id)
		if err != nil {
			return nil, err
		}
		answer = c.show(r)
	}
	return answer, nil
}

// MayQueue refuses a crawl of the account that Submit would refuse whatever is submitted. It costs little. A repeated
// submission with the idempotency key is not refused.
func (c *Crawls) MayQueue(ctx context.Context, caller *Caller, key string) error {
	n, err := Value[int](ctx, c.s.db.Read(), "SELECT COUNT(*) FROM idempotency WHERE account = ? AND key = ?",
		caller.Account.ID, key)
	if err != nil || n > 0 {
		return err
	}
	if err := c.s.mayAdd(); err != nil {
		return err
	}
	return checkQueueLength(ctx, c.s.db.Read(), caller.Account.ID)
}

// checkQueueLength refuses a crawl if the account has as many waiting as its plan allows, or mostQueued.
func checkQueueLength(ctx context.Context, q Queryer, account string) error {
	owner, err := getAccount(ctx, q, account)
	if err != nil {
		return err
	}
	plan, err := getPlan(ctx, q, owner.Plan)
	if err != nil {
		return err
	}
	most := cmp.Or(plan.MaxQueued, mostQueued)
	queued, err := Value[int](ctx, q, "SELECT queued FROM account WHERE id = ?", account)
	if err == nil && queued >= most {
		return &Error{Code: ErrPlanLimit,
			Detail: fmt.Sprintf("plan %q allows %d waiting crawls, and so many wait: try again when one has begun",
				plan.Name, most)}
	}
	return err
}

// newRow makes the row of a submission, or names every fault of it.
func (c *Crawls) newRow(ctx context.Context, caller *Caller, sub *Submission) (*row, error) {
	r := &row{given: map[string]json.RawMessage{}}
	r.setStarts(sub.StartURLs)
	r.ID, r.Account, r.State, r.Desired = NewID(), caller.Account.ID, Queued, DesiredRun
	r.Name, r.Labels, r.Schedule = sub.Name, sub.Labels, caller.Schedule
	if r.Labels == nil {
		r.Labels = []string{}
	}
	plan, faults, err := c.choosePlan(ctx, caller, r, sub.Plan)
	if err != nil {
		return nil, err
	}
	r.Priority = min(defaultPriority, plan.MaxPriority)
	if plan.own != nil {
		r.Priority = min(r.Priority, plan.own.MaxPriority)
	}
	if sub.Priority != nil {
		r.Priority = *sub.Priority
	}
	maps.Copy(r.given, config.SpellOutJSON(sub.Settings))
	faults = append(faults, r.checkWords(&plan)...)
	faults = append(faults, c.load(r, caller, &plan, r.given)...)
	if err := Invalid("the submission", faults); err != nil {
		return nil, err
	}
	return r, nil
}

// choosePlan gives a crawl a plan: that of its account, a safe one, or any if the caller is an admin. The caller has
// the account of the crawl.
func (c *Crawls) choosePlan(ctx context.Context, caller *Caller, r *row, name string) (Plan, []FieldError, error) {
	own := caller.Account.Plan
	plan, err := c.s.Accounts.plan(ctx, cmp.Or(name, own))
	if e := (*Error)(nil); errors.As(err, &e) {
		return Plan{MaxPriority: maxPriority}, []FieldError{{"plan", "unknown", e.Detail}}, nil
	}
	if err != nil {
		return plan, nil, err
	}
	r.Plan, r.planByAdmin = plan.Name, plan.Name != own && !plan.Safe
	if r.planByAdmin && !caller.Has(ScopeAdmin) {
		return plan, []FieldError{{"plan", "not_permitted",
			fmt.Sprintf("the account has plan %q; only an admin may choose another one that is not safe", own)}}, nil
	}
	plan, err = c.s.Accounts.planOfCrawl(ctx, r)
	return plan, nil, err
}

// planOfCrawl is the plan of a crawl as it is now, under that of its account. A plan that is not safe is alone if an
// admin chose it.
func (a *Accounts) planOfCrawl(ctx context.Context, r *row) (Plan, error) {
	plan, err := a.plan(ctx, r.Plan)
	if err != nil {
		return plan, err
	}
	account, err := a.Get(ctx, r.Account)
	if err != nil || plan.Name == account.Plan || r.planByAdmin && !plan.Safe {
		return plan, err
	}
	own, err := a.plan(ctx, account.Plan)
	plan.own, plan.Safe = &own, plan.Safe || own.Safe
	return plan, err
}

// checkWords says what is wrong with name, labels and priority.
func (r *row) checkWords(plan *Plan) (faults []FieldError) {
	if r.Name != "" {
		faults = checkName("name", r.Name)
	}
	if len(r.Labels) > maxLabels {
		faults = append(faults, FieldError{"labels", "too_many",
			fmt.Sprintf("there are %d, at most %d are allowed", len(r.Labels), maxLabels)})
	}
	for i, label := range r.Labels {
		faults = append(faults, checkName(fmt.Sprintf("labels[%d]", i), label)...)
	}
	switch {
	case r.Priority < 0 || r.Priority > maxPriority:
		faults = append(faults, FieldError{"priority", "bad_value", "it must be 0 to 9"})
	case r.Priority > plan.MaxPriority:
		faults = append(faults, FieldError{"priority", "not_permitted",
			fmt.Sprintf("plan %q allows priorities up to %d", plan.Name, plan.MaxPriority)})
	case plan.own != nil && r.Priority > plan.own.MaxPriority:
		faults = append(faults, FieldError{"priority", "not_permitted",
			fmt.Sprintf("plan %q allows priorities up to %d", plan.own.Name, plan.own.MaxPriority)})
	}
	return faults
}

// load reads start URLs and settings of a row for a caller, sets what follows from them, and names every fault. asked
// has the settings of this request, and the plan judges only these: the others were judged before, and a plan that has
// become smaller acts when the crawl starts.
func (c *Crawls) load(r *row, caller *Caller, plan *Plan, asked map[string]json.RawMessage) (faults []FieldError) {
	submitted, faults := c.settingsOf(r, caller)
	if plan.Safe {
		submitted.base = append(slices.Clone(submitted.base),
			config.Layer{config.SafeName: {Texts: []string{"true"}, From: "plan " + plan.Name}})
	}
	faults = append(faults, plan.refuse(asked)...)
	loaded, bad := submitted.load()
	faults = append(faults, bad...)
	if len(faults) > 0 {
		return faults
	}
	granted := loaded.Origin[onlyHosts] == fromGrant
	if caller.Has(ScopeAdmin) {
		granted = r.isByGrant()
	}
	r.Profile, r.stored = string(loaded.Settings.Profile), loaded.Settings.StoredWithSecrets()
	if granted {
		r.stored[byGrant] = []string{"true"}
	}
	r.Warnings = append([]string{}, loaded.Warnings...)
	// What gives no value, such as null, is left to the operator, and is no setting of the user.
	maps.DeleteFunc(r.given, func(key string, _ json.RawMessage) bool { return !submitted.has(key) })
	r.Settings = map[string]any{}
	for _, e := range loaded.Settings.Redacted().Table() {
		if _, ok := r.given[config.FileKey(e.Name)]; ok {
			r.Settings[config.FileKey(e.Name)] = e.Value.JSON()
		}
	}
	for _, name := range []string{config.ProfileName, config.SafeName} {
		if value, ok := r.given[name]; ok {
			r.Settings[name] = value
		}
	}
	return nil
}

// settingsOf are the settings that a row asks for, to be judged for a caller, and the faults of its start URLs.
func (c *Crawls) settingsOf(r *row, caller *Caller) (settingsRequest, []FieldError) {
	starts, faults := parseStarts(r.starts)
	if bytes := len(ToJSON(r.starts)); bytes > maxStartBytes && len(faults) == 0 {
		faults = []FieldError{{"start_urls", "too_large",
			fmt.Sprintf("they have %d bytes in all, at most %d are allowed", bytes, maxStartBytes)}}
	}
	s := settingsRequest{base: c.s.o.Base, settings: []byte(ToJSON(r.given)), admin: caller.Has(ScopeAdmin),
		hosts: caller.Account.OwnHosts, bound: r.stored[onlyHosts]}
	for _, start := range starts {
		s.startHosts = append(s.startHosts, start.URL.Host())
	}
	return s, faults
}

// byGrant is stored beside the effective settings of a crawl that hosts of its account have allowed. It stays when an
// admin changes the crawl. Earlier versions did not store it.
const byGrant = "by-grant"

// isByGrant says whether hosts of its account have allowed the crawl.
func (r *row) isByGrant() bool {
	_, marked := r.stored[byGrant]
	_, given := r.given[config.FileKey(onlyHosts)]
	return marked || !given && len(r.stored[onlyHosts]) > 0 // settings for granted hosts always set only-hosts
}

// checkGrant refuses to run a crawl again if its settings need hosts that are no longer granted to the account. If only
// some of its hosts are lost, it binds the crawl to the others and reports that it did. The crawl of an admin needs no
// grant.
func (c *Crawls) checkGrant(ctx context.Context, caller *Caller, r *row) (isRebound bool, err error) {
	_, given := r.given[config.FileKey(onlyHosts)]
	if caller.Has(ScopeAdmin) || !given && !r.isByGrant() {
		return false, nil
	}
	owner, err := c.owner(ctx, caller, r)
	if err != nil {
		return false, err
	}
	submitted, _ := c.settingsOf(r, owner)
	bound := submitted.bind(submitted.withhold())
	var faults []FieldError
	for _, f := range submitted.faults {
		if f.Code == faultPermission && !r.isByGrant() {
			return false, nil // an admin has submitted it
		}
		if f.Code == faultHost {
			faults = append(faults, f)
		}
	}
	if len(faults) > 0 {
		return false, Invalid("the crawl", faults)
	}
	if len(bound) == 0 || slices.Equal(r.stored[onlyHosts], bound) {
		return false, nil
	}
	r.stored[onlyHosts] = bound
	return true, nil
}

// refuse says which settings of a request the plan does not allow.
func (p *Plan) refuse(asked map[string]json.RawMessage) (faults []FieldError) {
	if p.own != nil {
		faults = p.own.refuse(asked)
	}
	for _, name := range p.Refused {
		if value, ok := asked[name]; ok && string(value) != "null" { // which takes the setting away
			faults = append(faults, FieldError{"settings." + name, "not_permitted",
				fmt.Sprintf("plan %q does not allow this setting", p.Name)})
		}
	}
	pages, err := config.ParseNumber(strings.Trim(string(asked["max_urls"]), `"`))
	if err == nil && p.MaxURLs > 0 && pages > p.MaxURLs && !p.Safe {
		faults = append(faults, FieldError{"settings.max_urls", "not_permitted",
			fmt.Sprintf("plan %q allows %d pages in a crawl (requested: %d)", p.Name, p.MaxURLs, pages)})
	}
	return faults
}

// parseStarts reads start URLs and names every fault. Each start has the place of its text; one with a fault is zero.
func parseStarts(texts []string) (starts []datadir.Start, faults []FieldError) {
	if len(texts) == 0 {
		return nil, []FieldError{{"start_urls", "missing", "at least one start URL is needed"}}
	}
	if len(texts) > maxStarts {
		return nil, []FieldError{{"start_urls", "too_many", fmt.Sprintf("there are %d, at most %d are allowed",
			len(texts), maxStarts)}}
	}
	for i, text := range texts {
		s, err := datadir.ParseStart(strings.TrimSpace(text))
		starts = append(starts, datadir.Start{})
		switch {
		case len(faults) == maxFaults:
			return nil, faults // enough to refuse it
		case len(text) > maxStartLength:
			faults = append(faults, FieldError{fmt.Sprintf("start_urls[%d]", i), "too_long",
				fmt.Sprintf("it has %d bytes, at most %d are allowed", len(text), maxStartLength)})
		case err != nil:
			faults = append(faults, FieldError{fmt.Sprintf("start_urls[%d]", i), "bad_value", err.Error()})
		default:
			starts[i] = s
		}
	}
	return starts, faults
}

// eachOnce leaves repeated start URLs out.
func eachOnce(starts []datadir.Start) (out []datadir.Start) {
	seen := map[string]bool{}
	for _, s := range starts {
		if !seen[s.URL.String()] {
			seen[s.URL.String()] = true
			out = append(out, s)
		}
	}
	return out
}

// WithoutUserinfo removes user names and passwords from start URLs. New ones have none; earlier versions stored them,
// and never sent them.
func WithoutUserinfo(starts []string) {
	for i := range starts {
		starts[i], _ = weburl.CutUserinfo(starts[i])
	}
}

// Get returns a crawl.
func (c *Crawls) Get(ctx context.Context, caller *Caller, id string) (*Crawl, error) {
	r, err := c.s.getWhole(ctx, caller.Visible(), id)
	if err != nil {
		return nil, err
	}
	return c.show(r), nil
}

// Brief is Get without what the crawl was submitted with, which may be large.
func (c *Crawls) Brief(ctx context.Context, caller *Caller, id string) (*Crawl, error) {
	r, err := getRow(ctx, c.s.db.Read(), caller.Visible(), id)
	if err != nil {
		return nil, err
	}
	return c.show(r), nil
}

// show completes a row with what is not stored: figures of a running crawl, the place in the queue, when it is deleted.
func (c *Crawls) show(r *row) *Crawl {
	r.fillEmpty()
	crawl := r.Crawl
	c.dispatch.complete(&crawl)
	if c.s.o.Retention > 0 && crawl.State.Ended() && !crawl.EndedAt.IsZero() {
		crawl.ExpiresAt = TimeOf(Millis(crawl.EndedAt.Add(c.s.o.Retention)))
	}
	return &crawl
}

// List returns crawls, newest first, without settings and warnings. A part ends earlier if its crawls are large, or if
// a search has read for long.
func (c *Crawls) List(ctx context.Context, caller *Caller, f CrawlFilter) (*List[*Crawl], error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	after := place{at: math.MaxInt64}
	if f.Cursor != "" {
		var err error
		if after, err = parseCursor(f.Cursor); err != nil {
			return nil, err
		}
	}
	if account := caller.Visible(); account != "" {
		f.Account = account
	}
	limit := listLimit(f.Limit)
	found, next, err := c.places(ctx, &f, after, limit)
	if err != nil {
		return nil, err
	}
	ids := []string{}
	for _, p := range found {
		ids = append(ids, p.id)
	}
	rows, used, err := listRows(ctx, c.s.db.Read(), ids)
	if err != nil {
		return nil, err
	}
	if used < len(found) {
		next = &found[used-1]
	}
	out := &List[*Crawl]{Items: c.showAll(rows)}
	if next != nil {
		out.NextCursor = fmt.Sprintf("%d.%s", next.at, next.id)
	}
	return out, nil
}

// showAll completes the rows of a list.
func (c *Crawls) showAll(rows []*row) []*Crawl {
	crawls := []*Crawl{}
	for _, r := range rows {
		crawl := c.show(r)
		crawl.Warnings = nil // they are not read
		crawls = append(crawls, crawl)
	}
	return crawls
}

// listLimit is the number of items in a part of a list: what the caller asks for, by default 50, at most 1000.
func listLimit(asked int) int { return min(cmp.Or(max(asked, 0), 50), 1000) }

func badCursor() error {
	return &Error{Code: ErrInvalid, Detail: "the cursor is not valid",
		Fields: []FieldError{{"cursor", "bad_value", "use the value of next_cursor as it was given"}}}
}

func parseCursor(text string) (place, error) {
	before, id, found := strings.Cut(text, ".")
	at, err := strconv.ParseInt(before, 10, 64)
	if err != nil || !found || !isID(id) {
		return place{}, badCursor()
	}
	return place{at, id}, nil
}

// Command does what a user asks of a crawl. A command may be repeated. recrawl is used by CommandRecrawl only and may
// be nil.
func (c *Crawls) Command(ctx context.Context, caller *Caller, id string, command Command, recrawl *Recrawl) (*Crawl,
	error) {
	if command == CommandRecrawl {
		if recrawl == nil {
			recrawl = &Recrawl{}
		}
		if err := recrawl.Check(); err != nil {
			return nil, err
		}
	}
	var r *row
	changed, bound := false, false
	write := c.s.Write
	if command == CommandResume || command == CommandRecrawl {
		write = c.s.Add
	}
	err := c.change(ctx, caller, id, write, func(whole *row) (err error) {
		if whole.State.Ended() && command != CommandDelete {
			if whole.next, err = c.nextSettings(ctx, whole); err != nil {
				return err
			}
		}
		after := *whole
		if _, err := after.decide(command, time.Now()); err != nil {
			return err
		}
		if bound = false; after.State != Queued || whole.State == Queued {
			return nil
		}
		bound, err = c.checkGrant(ctx, caller, whole)
		return err
	}, func(tx *Tx, now *row) error {
		r = now
		before := *r
		event, err := r.decide(command, tx.now)
		if err != nil {
			return err
		}
		if bound {
			if err := r.putBound(tx); err != nil {
				return err
			}
		}
		if command == CommandRecrawl {
			r.recrawl = recrawl
		}
		if r.State == Queued && before.State != Queued {
			if err := checkQueueLength(ctx, tx, r.Account); err != nil {
				return err
			}
		}
		if changed = before.State != r.State || before.Desired != r.Desired || before.Waiting != r.Waiting; !changed {
			return nil
		}
		audit := tx.Audit(caller, "crawl."+string(command), r.ID, nil)
		if event == CrawlFinished {
			return errors.Join(r.recordEnd(tx, caller.Actor(), false), audit)
		}
		return errors.Join(r.move(tx, caller.Actor(), event, nil), audit)
	})
	if err != nil {
		return nil, err
	}
	if changed {
		c.dispatch.retries.forget(id) // a user does not wait for what failed before
	}
	c.dispatch.wake()
	return c.show(r), nil
}

// nextSettings are the settings of a run of an ended crawl that would begin now.
func (c *Crawls) nextSettings(ctx context.Context, r *row) (*config.Settings, error) {
	plan, err := c.s.Accounts.planOfCrawl(ctx, r)
	if err != nil {
		return nil, err
	}
	settings, err := c.s.o.settings(r, &plan)
	if err != nil { // the run would fail
		err = &Error{Code: ErrState, Detail: err.Error(), State: r.State, Allowed: []Command{CommandDelete}}
	}
	return settings, err
}

// Check names every fault of what a recrawl visits.
func (r *Recrawl) Check() error {
	var faults []FieldError
	if bytes := len(ToJSON(r)); bytes > maxSettings {
		return Invalid("the recrawl", []FieldError{{"", "too_large",
			fmt.Sprintf("it has %d bytes, at most %d are allowed", bytes, maxSettings)}})
	}
	if _, err := r.options(); err != nil {
		faults = append(faults, FieldError{"max_age", "bad_value", err.Error()})
	}
	if err := (&crawl.Recrawl{Include: r.Include}).Check(); err != nil {
		faults = append(faults, FieldError{"include", "bad_value", err.Error()})
	}
	if err := (&crawl.Recrawl{Exclude: r.Exclude}).Check(); err != nil {
		faults = append(faults, FieldError{"exclude", "bad_value", err.Error()})
	}
	return Invalid("the recrawl", faults)
}

// options are the terms of a recrawl for package crawl.
func (r *Recrawl) options() (*crawl.Recrawl, error) {
	o := &crawl.Recrawl{Include: r.Include, Exclude: r.Exclude}
	var err error
	if r.MaxAge != "" {
		o.MaxAge, err = config.ParseAge(r.MaxAge)
	}
	return o, err
}

// Queue returns waiting crawls in their order, as of the last step of the dispatcher, which follows every change. It
// uses only the account, the limit and the cursor of the filter.
func (c *Crawls) Queue(ctx context.Context, caller *Caller, f CrawlFilter) (*List[*Crawl], error) {
	account := cmp.Or(caller.Visible(), f.Account)
	after := 0
	if f.Cursor != "" {
		var err error
		if after, err = strconv.Atoi(f.Cursor); err != nil || after < 0 {
			return nil, badCursor()
		}
	}
	limit := listLimit(f.Limit)
	at, ids := []int{}, []string{}
	for i, place := range c.dispatch.queue() {
		if i < after || account != "" && place.account != account {
			continue
		}
		at, ids = append(at, i), append(ids, place.id)
		if len(ids) > limit {
			break
		}
	}
	rows, used, err := listRows(ctx, c.s.db.Read(), ids[:min(limit, len(ids))])
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(r *row) bool { // it has started since
		return !r.isInQueue() || c.dispatch.runner(r.ID) != nil
	})
	out := &List[*Crawl]{Items: c.showAll(rows)}
	if used < len(ids) {
		out.NextCursor = strconv.Itoa(at[used])
	}
	return out, nil
}

// Live is the status of a crawl that runs, at most half a second old, or nil. The caller has read the crawl before.
func (c *Crawls) Live(id string) *monitor.Live {
	if r := c.dispatch.runner(id); r != nil {
		return r.live()
	}
	return nil
}

// DataDir is the directory of a crawl. Before the crawl has begun it does not exist.
func (c *Crawls) DataDir(id string) datadir.Dir { return datadir.Dir(c.s.crawlDir(id)) }

// Runs returns the ended generations of a crawl, newest first.
func (c *Crawls) Runs(ctx context.Context, caller *Caller, id string) ([]Run, error) {
	if _, err := getRow(ctx, c.s.db.Read(), caller.Visible(), id); err != nil {
		return nil, err
	}
	return loadRuns(ctx, c.s.db.Read(), "crawl = ? ORDER BY generation DESC", id)
}

const runColumns = "generation, state, started_at, ended_at, result_json, progress_json"

func loadRuns(ctx context.Context, q Queryer, where string, args ...any) ([]Run, error) {
	runs, err := Collect(ctx, q, func(r *Run) []any {
		return []any{&r.Generation, &r.State, &r.StartedAt, &r.EndedAt, &r.Result, &r.Progress}
	}, "SELECT "+runColumns+" FROM crawl_run WHERE "+where, args...)
	for i := range runs {
		runs[i].Result.fillEmpty()
		runs[i].Progress.fillEmpty()
	}
	return runs, err
}
