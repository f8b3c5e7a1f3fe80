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
	// the latest generation that ended; it is later than the present one after a recrawl that was cancelled
	lastRun uint32
}

const shownStarts = 10

// rowColumns are those that every reader of a crawl needs. What it was submitted with is in a table of its own, because
// it may be large.
const (
	rowColumns = "id, account, name, labels_json, generation, state, desired, wait_code, wait_detail, " +
		"first_starts_json, start_count, profile, " +
		"recrawl_json, plan, priority, schedule, created_at, queued_at, started_at, ended_at, begun, resume_first, " +
		"trial, elapsed_ms, counted, disk_bytes, " +
		"result_json, progress_json, (SELECT COALESCE(MAX(generation), 0) FROM crawl_run WHERE crawl_run.crawl = " +
		"crawl.id)"

	selectRow = "SELECT " + rowColumns +
		", starts_json, settings_json, shown_json, stored_json FROM crawl JOIN crawl_input ON crawl_input.crawl = " +
		"crawl.id "
	selectShown = "SELECT " + rowColumns + " FROM crawl "
)

// scanRow reads a whole row, by selectRow.
func scanRow(from Scanner) (*row, error) { return scan(from, true) }

// scanShown reads what lists show of a crawl, by selectShown: not its settings, and not all of its start URLs.
func scanShown(from Scanner) (*row, error) { return scan(from, false) }

func scan(from Scanner, whole bool) (*row, error) {
	r := &row{}
	var labels, first, starts, settings, shown, stored, recrawl, result, progress string
	var waiting Waiting
	var created, started, ended, elapsed int64
	dest := []any{&r.ID, &r.Account, &r.Name, &labels, &r.Generation, &r.State, &r.Desired, &waiting.Code,
		&waiting.Detail, &first, &r.StartURLCount, &r.Profile,
		&recrawl, &r.Plan, &r.Priority, &r.Schedule, &created, &r.queuedAt, &started, &ended, &r.begun, &r.resumeFirst,
		&r.trial, &elapsed, &r.counted, &r.disk,
		&result, &progress, &r.lastRun}
	if whole {
		dest = append(dest, &starts, &settings, &shown, &stored)
	}
	if err := from.Scan(dest...); err != nil {
		return nil, err
	}
	var err error
	if whole {
		err = errors.Join(FromJSON(starts, &r.starts), FromJSON(settings, &r.given), FromJSON(shown, &r.Settings),
			FromJSON(stored, &r.stored))
	}
	err = errors.Join(err, FromJSON(labels, &r.Labels), FromJSON(first, &r.StartURLs), FromJSON(recrawl, &r.recrawl),
		FromJSON(result, &r.Result),
		FromJSON(progress, &r.Progress))
	r.CreatedAt, r.StartedAt, r.EndedAt = TimeOf(created), TimeOf(started), TimeOf(ended)
	r.elapsed = time.Duration(elapsed) * time.Millisecond
	r.Elapsed = r.elapsed.Seconds()
	if waiting.Code != "" {
		r.Waiting = &waiting
	}
	WithoutUserinfo(r.starts)
	WithoutUserinfo(r.StartURLs)
	r.PagesCounted = max(r.PagesCounted, r.counted)
	return r, err
}

// getRow reads a crawl. Account, if it is given, is the only one whose crawls are found.
func getRow(ctx context.Context, q Queryer, account, id string) (*row, error) {
	if !isID(id) {
		return nil, notFound("crawl", id)
	}
	r, err := scanRow(q.QueryRowContext(ctx, selectRow+"WHERE id = ? AND (account = ? OR ? = '')", id, account,
		account))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, notFound("crawl", id)
	}
	return r, err
}

// insert stores a new crawl.
func (r *row) insert(tx *Tx) error {
	return errors.Join(tx.Change("INSERT INTO crawl (id, account, state, desired, plan, priority, profile, name, "+
		"labels_json, schedule, first_starts_json, start_count, created_at, queued_at) "+
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		r.ID, r.Account, r.State, r.Desired, r.Plan, r.Priority, r.Profile, r.Name, ToJSON(r.Labels), r.Schedule,
		ToJSON(r.StartURLs), len(r.starts), Millis(tx.now), Millis(tx.now)), r.putInput(tx))
}

// putInput stores what the crawl was submitted with. It is refused if the database would hold more of the account than
// its plan allows.
func (r *row) putInput(tx *Tx) error {
	starts, given, shown, stored := ToJSON(r.starts), ToJSON(r.given), ToJSON(r.Settings), ToJSON(r.stored)
	return errors.Join(
		tx.Change("INSERT INTO crawl_input (crawl, starts_json, settings_json, shown_json, stored_json) VALUES (?, "+
			"?, ?, ?, ?) ON CONFLICT (crawl) DO UPDATE SET "+
			"starts_json = excluded.starts_json, settings_json = excluded.settings_json, shown_json = "+
			"excluded.shown_json, stored_json = excluded.stored_json", r.ID, starts, given, shown, stored),
		tx.Change("UPDATE crawl SET input_bytes = ? WHERE id = ?", len(starts)+len(given)+len(shown)+len(stored), r.ID),
		tx.CheckInput(r.Account))
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
// that is empty. It is the only way to another state but deleting, so that each change has one event.
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
	return tx.Change("UPDATE crawl SET state = ?, desired = ?, generation = ?, wait_code = ?, wait_detail = ?, "+
		"recrawl_json = ?, "+
		"started_at = ?, ended_at = ?, begun = ?, resume_first = ?, trial = ?, elapsed_ms = ?, counted = ?, "+
		"queued_at = ?, disk_bytes = ?, result_json = ?, progress_json = ? WHERE id = ?",
		r.State, r.Desired, r.Generation, code, detail, recrawl, Millis(r.StartedAt.Time), Millis(r.EndedAt.Time),
		r.begun, r.resumeFirst, r.trial,
		r.elapsed.Milliseconds(), r.counted, r.queuedAt, r.disk, ToJSON(r.Result), ToJSON(r.Progress), r.ID)
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
