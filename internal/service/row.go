package service

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/config"
)

// row is a crawl as it is stored.
type row struct {
	Crawl
	starts      []string                   // all start URLs
	given       map[string]json.RawMessage // what the submission and edits set, by file key
	stored      map[string][]string        // the effective settings
	planByAdmin bool                       // an admin gave it the plan, which was not safe then
	recrawl     *Recrawl                   // nil in the first generation
	queuedAt    int64
	begun       bool // it has a directory
	resumeFirst bool
	trial       trial
	elapsed     time.Duration // of this generation
	counted     int64         // pages of this generation that are booked
	disk        int64
	edits       int64 // how often it was edited
	// the latest generation that ended; it is later than the present one after a recrawl that was cancelled
	lastRun uint32
	// the settings of a run that would begin now, under the plan as it is now; filled for commands to ended crawls
	next *config.Settings
}

// nextIsSafe says whether a run that would begin now is that of a safe crawl.
func (r *row) nextIsSafe() bool { return r.next.Profile == config.Safe }

const shownStarts = 10

// rowColumns are those that every reader of a crawl needs. What it was submitted with is in a table of its own, because
// it may be large.
const (
	rowColumns = "id, account, name, labels_json, generation, state, desired, wait_code, wait_detail, " +
		"first_starts_json, start_count, profile, recrawl_json, plan, plan_by_admin, priority, schedule, " +
		"created_at, queued_at, started_at, ended_at, begun, resume_first, trial, elapsed_ms, counted, disk_bytes, " +
		"result_json, progress_json, edits, (SELECT COALESCE(MAX(generation), 0) FROM crawl_run WHERE " +
		"crawl_run.crawl = crawl.id)"
	inputColumns = "starts_json, settings_json, shown_json, stored_json"
)

// loadRows reads crawls. Those that are not whole have no settings, and not all start URLs.
func loadRows(ctx context.Context, q Queryer, whole bool, where string, args ...any) ([]*row, error) {
	query := "SELECT " + rowColumns + " FROM crawl " + where
	if whole {
		query = "SELECT " + rowColumns + ", " + inputColumns + " FROM crawl JOIN crawl_input ON crawl_input.crawl = " +
			"crawl.id " + where
	}
	return scanRows(ctx, q, whole, query, args...)
}

// listRows reads crawls by their ids for a list, in the order of the ids, until there are PartBytes of them. used is
// the number of ids that were looked up. The rows have no settings, warnings and terms of a recrawl, so they cannot be
// moved.
func listRows(ctx context.Context, q Queryer, ids []string) (rows []*row, used int, err error) {
	const atOnce = 50
	columns := strings.NewReplacer("result_json", "json_remove(result_json, '$.warnings')",
		"recrawl_json", "''").Replace(rowColumns)
	bytes := 0
	for some := range slices.Chunk(ids, atOnce) {
		args := make([]any, len(some))
		for i, id := range some {
			args[i] = id
		}
		found, err := scanRows(ctx, q, false, "SELECT "+columns+" FROM crawl WHERE id IN (?"+
			strings.Repeat(", ?", len(some)-1)+")", args...)
		if err != nil {
			return nil, 0, err
		}
		for _, id := range some {
			if at := slices.IndexFunc(found, func(r *row) bool { return r.ID == id }); at >= 0 { // not deleted since
				if bytes += found[at].listedBytes(); bytes > PartBytes && len(rows) > 0 {
					return rows, used, nil
				}
				rows = append(rows, found[at])
			}
			used++
		}
	}
	return rows, used, nil
}

// listedBytes is about what the crawl takes in a list.
func (r *row) listedBytes() int {
	const others = 2000 // fields that have about the same size for all crawls
	return others + len(ToJSON([]any{r.Name, r.Labels, r.StartURLs, r.Reason, r.Errors}))
}

func scanRows(ctx context.Context, q Queryer, whole bool, query string, args ...any) ([]*row, error) {
	rows, err := Collect(ctx, q, func(to **row) []any {
		r := &row{}
		*to, r.Waiting = r, &Waiting{}
		dest := []any{&r.ID, &r.Account, &r.Name, &r.Labels, &r.Generation, &r.State, &r.Desired, &r.Waiting.Code,
			&r.Waiting.Detail, &r.StartURLs, &r.StartURLCount, &r.Profile, &r.recrawl, &r.Plan,
			&r.planByAdmin, &r.Priority, &r.Schedule, &r.CreatedAt, &r.queuedAt, &r.StartedAt, &r.EndedAt, &r.begun,
			&r.resumeFirst, &r.trial, &r.elapsed, &r.counted, &r.disk, &r.Result, &r.Progress, &r.edits, &r.lastRun}
		if whole {
			dest = append(dest, &r.starts, &r.given, &r.Settings, &r.stored)
		}
		return dest
	}, query, args...)
	for _, r := range rows {
		r.elapsed *= time.Millisecond
		r.Elapsed = r.elapsed.Seconds()
		if r.Waiting.Code == "" {
			r.Waiting = nil
		}
		WithoutUserinfo(r.starts)
		WithoutUserinfo(r.StartURLs)
		r.PagesCounted = max(r.PagesCounted, r.counted)
	}
	return rows, err
}

// getRow reads a crawl without its settings, and with its first start URLs only. Account, if it is given, is the only
// one whose crawls are found.
func getRow(ctx context.Context, q Queryer, account, id string) (*row, error) {
	return findRow(ctx, q, false, account, id)
}

// getWhole reads a crawl with its settings and all its start URLs, which may be large. So it cannot be used in a
// transaction, for which all others wait that write.
func (s *Service) getWhole(ctx context.Context, account, id string) (*row, error) {
	return findRow(ctx, s.db.Read(), true, account, id)
}

func findRow(ctx context.Context, q Queryer, whole bool, account, id string) (*row, error) {
	if !isID(id) {
		return nil, notFound("crawl", id)
	}
	rows, err := loadRows(ctx, q, whole, "WHERE id = ? AND (account = ? OR ? = '')", id, account, account)
	if err == nil && len(rows) == 0 {
		err = notFound("crawl", id)
	}
	if err != nil {
		return nil, err
	}
	return rows[0], nil
}

// insert stores a new crawl.
func (r *row) insert(tx *Tx, input *encodedInput) error {
	return errors.Join(tx.Insert("crawl", "id, account, state, desired, plan, plan_by_admin, priority, profile, "+
		"name, labels_json, schedule, first_starts_json, start_count, created_at, queued_at", r.ID, r.Account, r.State,
		r.Desired, r.Plan, r.planByAdmin, r.Priority, r.Profile, r.Name, r.Labels, r.Schedule, r.StartURLs,
		len(r.starts), tx.now, tx.now),
		r.putInput(tx, input), tx.CheckInput(r.Account))
}

// encodedInput is what a crawl was submitted with, as it is stored. It is made before the transaction.
type encodedInput struct{ starts, given, shown, stored string }

func (r *row) encodeInput() *encodedInput {
	return &encodedInput{ToJSON(r.starts), ToJSON(r.given), ToJSON(r.Settings), ToJSON(r.stored)}
}

// putInput stores what the crawl was submitted with, and how much that and the texts of the row are.
func (r *row) putInput(tx *Tx, in *encodedInput) error {
	return errors.Join(
		tx.Put("crawl_input", "crawl", "crawl, "+inputColumns, r.ID, in.starts, in.given, in.shown, in.stored),
		tx.Change("UPDATE crawl SET input_bytes = ? WHERE id = ?",
			len(in.starts)+len(in.given)+len(in.shown)+len(in.stored)+
				len(r.Name)+len(ToJSON(r.Labels))+len(ToJSON(r.StartURLs)), r.ID))
}

// putBound stores the effective settings alone, after the crawl was bound to fewer hosts.
func (r *row) putBound(tx *Tx) error {
	return errors.Join(tx.Change("UPDATE crawl_input SET stored_json = ? WHERE crawl = ?", r.stored, r.ID),
		tx.Change("UPDATE crawl SET edits = edits + 1 WHERE id = ?", r.ID))
}

// setStarts takes start URLs, and shows the first of them.
func (r *row) setStarts(starts []string) {
	r.starts, r.StartURLCount, r.StartURLs = starts, len(starts), FirstStarts(starts)
}

// FirstStarts are the start URLs that are shown of many: ten, or fewer that are long.
func FirstStarts(starts []string) []string {
	n := 0
	for bytes := 0; n < min(len(starts), shownStarts); n++ {
		if bytes += len(starts[n]); bytes > maxStartLength && n > 0 {
			break
		}
	}
	return append([]string{}, starts[:n]...)
}

// move stores the state, what is desired and what follows from them, and records an event of the given type, unless
// that is empty. Every change of state but that to deleting goes through it, so that each change has one event.
func (r *row) move(tx *Tx, by Actor, event EventType, data any) error {
	if data == nil {
		data = map[string]any{"state": r.State}
	}
	if event != "" {
		if err := r.record(tx, event, by, data); err != nil {
			return err
		}
	}
	if err := r.fallBack(tx); err != nil {
		return err
	}
	code, detail := WaitCode(""), ""
	if r.Waiting != nil && (r.State == Paused || r.State == Pausing) {
		code, detail = r.Waiting.Code, r.Waiting.Detail
	}
	return tx.Change("UPDATE crawl SET state = ?, desired = ?, generation = ?, wait_code = ?, wait_detail = ?, "+
		"recrawl_json = ?, started_at = ?, ended_at = ?, begun = ?, resume_first = ?, trial = ?, elapsed_ms = ?, "+
		"counted = ?, queued_at = ?, disk_bytes = ?, result_json = ?, progress_json = ? WHERE id = ?",
		r.State, r.Desired, r.Generation, code, detail, r.recrawl, r.StartedAt, r.EndedAt, r.begun, r.resumeFirst,
		r.trial, r.elapsed.Milliseconds(), r.counted, r.queuedAt, r.disk, r.Result, r.Progress, r.ID)
}

// record records an event of the crawl.
func (r *row) record(tx *Tx, what EventType, by Actor, data any) error {
	return tx.Record(Event{Type: what, Account: r.Account, Crawl: r.ID, Generation: r.Generation, Actor: by,
		Data: []byte(ToJSON(data))})
}

// setting is the text of an effective setting, by its name; empty if there is none.
func (r *row) setting(name string) string {
	if texts := r.stored[name]; len(texts) > 0 {
		return texts[len(texts)-1]
	}
	return ""
}
