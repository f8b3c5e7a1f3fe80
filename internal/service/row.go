package service

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"
)

// row is a crawl as it is stored.
type row struct {
	Crawl
	starts      []string                   // all start URLs
	given       map[string]json.RawMessage // what the submission and edits set, by file key
	stored      map[string][]string        // the effective settings
	recrawl     *Recrawl                   // nil in the first generation
	queuedAt    int64
	begun       bool // it has a directory
	resumeFirst bool
	trial       trial
	elapsed     time.Duration // of this generation
	counted     int64         // pages of this generation that are booked
	disk        int64
	lastRun     uint32 // the latest generation that ended; it is later than the present one after a recrawl that was cancelled
}

// shownStarts is how many start URLs of a crawl are shown.
const shownStarts = 10

const rowColumns = "id, account, name, labels_json, generation, state, desired, wait_code, wait_detail, starts_json, start_count, profile, settings_json, shown_json, stored_json, " +
	"recrawl_json, plan, priority, schedule, created_at, queued_at, started_at, ended_at, begun, resume_first, trial, elapsed_ms, counted, disk_bytes, " +
	"result_json, progress_json, (SELECT COALESCE(MAX(generation), 0) FROM crawl_run WHERE crawl_run.crawl = crawl.id)"

// scanRow reads a whole row.
func scanRow(from Scanner) (*row, error) { return scan(from, true) }

// scanShown reads what is shown of a crawl, without the settings as they were given and as they are stored, which are most of a row.
func scanShown(from Scanner) (*row, error) { return scan(from, false) }

func scan(from Scanner, whole bool) (*row, error) {
	r := &row{}
	var labels, starts, settings, shown, stored, recrawl, result, progress string
	var waiting Waiting
	var created, started, ended, elapsed int64
	err := from.Scan(&r.ID, &r.Account, &r.Name, &labels, &r.Generation, &r.State, &r.Desired, &waiting.Code, &waiting.Detail, &starts, &r.StartURLCount, &r.Profile, &settings, &shown, &stored,
		&recrawl, &r.Plan, &r.Priority, &r.Schedule, &created, &r.queuedAt, &started, &ended, &r.begun, &r.resumeFirst, &r.trial, &elapsed, &r.counted, &r.disk,
		&result, &progress, &r.lastRun)
	if err != nil {
		return nil, err
	}
	if whole {
		err = errors.Join(FromJSON(settings, &r.given), FromJSON(stored, &r.stored))
	}
	err = errors.Join(err, FromJSON(labels, &r.Labels), FromJSON(starts, &r.starts), FromJSON(shown, &r.Settings), FromJSON(recrawl, &r.recrawl), FromJSON(result, &r.Result),
		FromJSON(progress, &r.Progress))
	r.CreatedAt, r.StartedAt, r.EndedAt = TimeOf(created), TimeOf(started), TimeOf(ended)
	r.elapsed = time.Duration(elapsed) * time.Millisecond
	r.Elapsed = r.elapsed.Seconds()
	if waiting.Code != "" {
		r.Waiting = &waiting
	}
	r.StartURLs = r.starts[:min(len(r.starts), shownStarts)]
	r.PagesCounted = max(r.PagesCounted, r.counted)
	return r, err
}

// getRow reads a crawl. Account, if it is given, is the only one whose crawls are found.
func getRow(ctx context.Context, q Queryer, account, id string) (*row, error) {
	if !isID(id) {
		return nil, notFound("crawl", id)
	}
	r, err := scanRow(q.QueryRowContext(ctx, "SELECT "+rowColumns+" FROM crawl WHERE id = ? AND (account = ? OR ? = '')", id, account, account))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, notFound("crawl", id)
	}
	return r, err
}

// insert stores a new crawl.
func (r *row) insert(tx *Tx) error {
	return tx.Change("INSERT INTO crawl (id, account, state, desired, plan, priority, profile, name, labels_json, schedule, starts_json, start_count, settings_json, "+
		"shown_json, stored_json, created_at, queued_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		r.ID, r.Account, r.State, r.Desired, r.Plan, r.Priority, r.Profile, r.Name, ToJSON(r.Labels), r.Schedule, ToJSON(r.starts), len(r.starts), ToJSON(r.given), ToJSON(r.Settings), ToJSON(r.stored),
		Millis(tx.now), Millis(tx.now))
}

// move stores the state, what is desired and what follows from them, and records an event of the given type, unless that is empty. It is the only way to
// another state but deleting, so that each change has one event.
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
	recrawl := ""
	if r.recrawl != nil {
		recrawl = ToJSON(r.recrawl)
	}
	return tx.Change("UPDATE crawl SET state = ?, desired = ?, generation = ?, wait_code = ?, wait_detail = ?, recrawl_json = ?, "+
		"started_at = ?, ended_at = ?, begun = ?, resume_first = ?, trial = ?, elapsed_ms = ?, counted = ?, queued_at = ?, disk_bytes = ?, result_json = ?, progress_json = ? WHERE id = ?",
		r.State, r.Desired, r.Generation, code, detail, recrawl, Millis(r.StartedAt.Time), Millis(r.EndedAt.Time), r.begun, r.resumeFirst, r.trial,
		r.elapsed.Milliseconds(), r.counted, r.queuedAt, r.disk, ToJSON(r.Result), ToJSON(r.Progress), r.ID)
}

// record records an event of the crawl.
func (r *row) record(tx *Tx, what EventType, by Actor, data any) error {
	return tx.Record(Event{Type: what, Account: r.Account, Crawl: r.ID, Generation: r.Generation, Actor: by, Data: []byte(ToJSON(data))})
}

// setting is the text of an effective setting, by its name; empty if there is none.
func (r *row) setting(name string) string {
	if texts := r.stored[name]; len(texts) > 0 {
		return texts[len(texts)-1]
	}
	return ""
}
