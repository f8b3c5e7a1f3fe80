package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mapwright/mapwright/internal/cluster"
)

// errMismatch means that a statement of a commit changed other rows than it should.
var errMismatch = errors.New("a row of the batch does not match")

// errTokens means that tokens of a batch are not as the session knows them.
var errTokens = fmt.Errorf("a token that the batch releases is not held, or one that it begins exists: %w",
	cluster.ErrFenced)

// Commit implements [cluster.Log].
func (e *Engine) Commit(ctx context.Context, s cluster.Session, b *cluster.Batch) error {
	if err := b.Validate(); err != nil {
		return err
	}
	digest := b.Digest()
	for try := 1; ; try++ {
		err := e.transact(ctx, func(tx pgx.Tx) error { return write(ctx, tx, s, b, digest) })
		if !errors.Is(err, errMismatch) && code(err) != uniqueViolation && code(err) != undefinedTable {
			return e.classify("commit", err, true)
		}
		// The batch was rolled back. Either it had been committed by an earlier call, or
		// something does not fit it.
		committed := false
		err = e.transact(ctx, func(tx pgx.Tx) (err error) {
			committed, err = examine(ctx, tx, s, b, digest)
			return err
		})
		if err != nil || committed {
			return e.classify("commit", err, true)
		}
		if try == mostTries {
			return e.classify("commit", usage("batch %d fits and is not accepted", b.Number), true)
		}
	}
}

// write sends all statements of a batch at once.
func write(ctx context.Context, tx pgx.Tx, s cluster.Session, b *cluster.Batch, digest uint64) error {
	if len(b.Scope) > 0 {
		if err := lockCrawl(ctx, tx, s.Crawl); err != nil { // it orders the numbers of extensions
			return err
		}
	}
	var q pgx.Batch
	want := func(n int, sql string, args ...any) {
		q.Queue(sql, args...).Exec(func(tag pgconn.CommandTag) error {
			if n >= 0 && tag.RowsAffected() != int64(n) {
				return errMismatch
			}
			return nil
		})
	}
	// The session's row comes first: an earlier transaction with the same batch, of
	// which the answer was lost, has it locked until it ends.
	want(1, `
		UPDATE mapwright_session SET batch = $3, digest = $4
		WHERE crawl = $1 AND id = $2 AND batch = $3 - 1 AND NOT ended`,
		s.Crawl[:], s.ID[:], int64(b.Number), int64(digest))
	queueWrites(want, s, b)
	if len(b.Received) > 0 {
		parts, sessions, batches := columnsOf(b.Received)
		want(-1, `
			DELETE FROM `+inboxTable(s.Crawl)+` h
			USING unnest($1::smallint[], $2::bytea[], $3::bigint[]) AS u(part, session, batch)
			WHERE h.part = u.part AND h.session = u.session AND h.batch <= u.batch`, parts, sessions, batches)
	}
	if n := len(b.Sent); n > 0 {
		parts, bodies := make([]int16, n), make([][]byte, n)
		for i := range b.Sent {
			parts[i], bodies[i] = int16(b.Sent[i].To), b.Sent[i].Body
		}
		want(n, `
			INSERT INTO `+inboxTable(s.Crawl)+` SELECT part, $1::bytea, $2::bigint, body
			FROM unnest($3::smallint[], $4::bytea[]) AS u(part, body)`,
			s.ID[:], int64(b.Number), parts, bodies)
	}
	if n := len(b.Release); n > 0 {
		want(n, `DELETE FROM mapwright_token WHERE crawl = $1 AND holder = $2 AND name = ANY($3)`, s.Crawl[:], s.ID[:],
			b.Release)
	}
	if n := len(b.Hold); n > 0 {
		want(n, `
			INSERT INTO mapwright_token SELECT $1::bytea, name, $2::bytea FROM unnest($3::text[]) AS u(name)
			ON CONFLICT DO NOTHING`, s.Crawl[:], s.ID[:], b.Hold)
	}
	for _, scope := range b.Scope {
		want(1, `
			INSERT INTO mapwright_scope SELECT $1::bytea, count(*), $2::text
			FROM mapwright_scope WHERE crawl = $1`,
			s.Crawl[:], scope)
	}
	return tx.SendBatch(ctx, &q).Close()
}

// queueWrites locks the partitions in order if the session owns them, moves their heads if all are as it knows them,
// and appends the rows. The UPDATE does not test the owner: PostgreSQL would then expect that at most one row matches,
// and compare every partition of the batch with every row.
func queueWrites(want func(n int, sql string, args ...any), s cluster.Session, b *cluster.Batch) {
	n := len(b.Writes)
	if n == 0 {
		return
	}
	var (
		parts                                            = make([]int16, n)
		epochs, seqs, hashes, heads, headHashes, granted = make([]int64, n), make([]int64, n), make([]int64, n),
			make([]int64, n), make([]int64, n), make([]int64, n)
		busy, least, counted          = make([]int64, n), make([]int64, n), make([]int64, n)
		idle, closed                  = make([]bool, n), make([]bool, n)
		counts                        = make([][]byte, n)
		rowParts                      = make([]int16, 0, n)
		rowSeqs, rowHashes, rowEpochs = make([]int64, 0, n), make([]int64, 0, n), make([]int64, 0, n)
		bodies                        = make([][]byte, 0, n)
	)
	for i := range b.Writes {
		w := &b.Writes[i]
		head := w.Head()
		parts[i], epochs[i], granted[i] = int16(w.Partition), int64(w.Epoch), int64(w.Granted)
		seqs[i], hashes[i], heads[i], headHashes[i] = int64(w.After.Seq), int64(w.After.Hash), int64(head.Seq),
			int64(head.Hash)
		busy[i], least[i], counted[i] = int64(w.Status.Busy), int64(w.Status.Least), int64(w.Status.Counted)
		idle[i], closed[i], counts[i] = w.Status.Idle, w.Close, notNull(w.Status.Counts)
		if len(w.Body) > 0 {
			rowParts, bodies = append(rowParts, parts[i]), append(bodies, w.Body)
			rowSeqs, rowHashes, rowEpochs = append(rowSeqs, heads[i]), append(rowHashes, headHashes[i]),
				append(rowEpochs, epochs[i])
		}
	}
	want(n, `
		SELECT part FROM mapwright_part WHERE crawl = $1 AND part = ANY($2) AND owner = $3
		ORDER BY part FOR UPDATE`,
		s.Crawl[:], parts, s.ID[:])
	want(n, `
		UPDATE mapwright_part p SET seq = u.head, hash = u.head_hash, idle = u.idle, busy = u.busy,
			least = u.least, counted = u.counted, counts = u.counts,
			owner = CASE WHEN u.closed THEN $2::bytea ELSE p.owner END
		FROM unnest($3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
				$8::bigint[], $9::boolean[], $10::bigint[], $11::bigint[],
				$12::bigint[], $13::bytea[], $14::boolean[], $15::bigint[])
			AS u(part, epoch, seq, hash, head, head_hash, idle, busy, least, counted, counts, closed, granted)
		WHERE p.crawl = $1 AND p.part = u.part AND p.epoch = u.epoch AND p.seq = u.seq AND p.hash = u.hash
			AND p.granted = u.granted`,
		s.Crawl[:], none, parts, epochs, seqs, hashes, heads, headHashes, idle, busy, least, counted, counts, closed,
		granted)
	if len(bodies) > 0 {
		want(len(bodies), `
			INSERT INTO `+logTable(s.Crawl)+` SELECT part, seq, hash, epoch, $1::bytea, body
			FROM unnest($2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[])
				AS u(part, seq, hash, epoch, body)`,
			s.ID[:], rowParts, rowSeqs, rowHashes, rowEpochs, bodies)
	}
}

// examine finds out why a batch was not accepted. If it had been committed before, it
// writes to the session's row: that is durable, on a synchronous standby too, only when
// the batch is, so the answer waits for both.
func examine(ctx context.Context, tx pgx.Tx, s cluster.Session, b *cluster.Batch, digest uint64) (committed bool,
	err error) {
	if _, _, err := lockSessions(ctx, tx, s); err != nil {
		return false, err
	}
	var batch, stored int64
	if err := tx.QueryRow(ctx, `SELECT batch, digest FROM mapwright_session WHERE crawl = $1 AND id = $2`, s.Crawl[:],
		s.ID[:]).Scan(&batch, &stored); err != nil {
		return false, err
	}
	switch last := uint64(batch); {
	case b.Number == last && digest == uint64(stored):
		_, err := tx.Exec(ctx, `UPDATE mapwright_session SET confirmed = confirmed + 1 WHERE crawl = $1 AND id = $2`,
			s.Crawl[:], s.ID[:])
		return true, err
	case b.Number == last:
		return false, usage("batch %d was committed with another content", b.Number)
	case b.Number > last+1:
		return false, cluster.ErrRolledBack
	case b.Number < last:
		return false, usage("batch %d comes after batch %d", b.Number, last)
	}
	numbers := make([]int16, len(b.Writes))
	for i := range b.Writes {
		numbers[i] = int16(b.Writes[i].Partition)
	}
	found, err := readParts(ctx, tx, s.Crawl, numbers, "")
	if err != nil {
		return false, err
	}
	for i := range b.Writes {
		if i >= len(found) {
			return false, cluster.ErrRolledBack
		}
		if err := cluster.CheckFence(&found[i].Part, s.ID, &b.Writes[i]); err != nil {
			return false, err
		}
	}
	var held, exist int
	err = tx.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE holder = $2 AND name = ANY($3)), count(*) FILTER (WHERE name = ANY($4))
		FROM mapwright_token WHERE crawl = $1`,
		s.Crawl[:], s.ID[:], append([]string{}, b.Release...), append([]string{}, b.Hold...)).Scan(&held, &exist)
	if err == nil && (held != len(b.Release) || exist > 0) {
		err = errTokens
	}
	return false, err
}
