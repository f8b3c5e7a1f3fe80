package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/cluster"
)

// mostRows is how many rows one answer has at most.
const mostRows = 4096

// Read implements [cluster.Log]. The row at the place itself is read too, without its
// body, to compare its hash. The server adds up the lengths of bodies without reading
// them.
func (e *Engine) Read(ctx context.Context, id cluster.CrawlID, part uint8, after cluster.Place,
	limit int) ([]cluster.Row, error) {
	first := max(int64(after.Seq), 1)
	rows, _ := e.pool.Query(ctx, `
		SELECT seq, hash, epoch, session, CASE WHEN seq = $3 THEN NULL ELSE body END FROM (
			SELECT *, sum(CASE WHEN seq = $3 THEN 0 ELSE octet_length(body) END) OVER (ORDER BY seq)
				- octet_length(body) AS before
			FROM (SELECT * FROM `+logTable(id)+` WHERE part = $1 AND seq >= $2 ORDER BY seq LIMIT $4) AS page
		) AS sized WHERE seq = $3 OR seq = $3 + 1 OR before < $5 ORDER BY seq`,
		int16(part), first, int64(after.Seq), mostRows, int64(limit))
	// its error can be that of Query
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r cluster.Row, err error) {
		var hash int64
		var session []byte
		err = row.Scan(&r.Seq, &hash, &r.Epoch, &session, &r.Body)
		r.Hash = uint64(hash)
		copy(r.Session[:], session)
		return r, err
	})
	switch {
	case code(err) == undefinedTable:
		err = cluster.ErrNoCrawl
	case err == nil && after.Seq > 0 && (len(list) == 0 || list[0].Place != after):
		err = cluster.ErrRolledBack
	}
	if err != nil {
		return nil, e.classify("read the log", err, false)
	}
	if after.Seq > 0 {
		list = list[1:]
	}
	return list, nil
}

// columnsOf are the columns of a table of marks.
func columnsOf(marks []frontier.Mark) (parts []int16, sessions [][]byte, batches []int64) {
	n := len(marks)
	parts, sessions, batches = make([]int16, n), make([][]byte, n), make([]int64, n)
	for i := range marks {
		parts[i], sessions[i], batches[i] = int16(marks[i].Partition), marks[i].Session[:], int64(marks[i].Batch)
	}
	return parts, sessions, batches
}

// Inbox implements [cluster.Log].
func (e *Engine) Inbox(ctx context.Context, s cluster.Session, after []frontier.Mark, limit int) ([]cluster.Handover,
	error) {
	parts, sessions, batches := columnsOf(after)
	rows, _ := e.pool.Query(ctx, `
		SELECT part, session, batch, body FROM (
			SELECT *, sum(octet_length(body)) OVER (ORDER BY part, session, batch) - octet_length(body) AS before FROM (
				SELECT h.part, h.session, h.batch, h.body FROM `+inboxTable(s.Crawl)+` h
				JOIN mapwright_part p ON p.crawl = $1 AND p.part = h.part AND p.owner = $2
				WHERE NOT EXISTS (
					SELECT 1 FROM unnest($3::smallint[], $4::bytea[], $5::bigint[]) AS u(part, session, batch)
					WHERE h.part = u.part AND h.session = u.session AND h.batch <= u.batch)
				ORDER BY h.part, h.session, h.batch LIMIT $6) AS page
		) AS sized WHERE before = 0 OR before < $7 ORDER BY part, session, batch`,
		s.Crawl[:], s.ID[:], parts, sessions, batches, mostRows, int64(limit))
	// its error can be that of Query
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h cluster.Handover, err error) {
		var session []byte
		err = row.Scan(&h.To, &session, &h.Batch, &h.Body)
		copy(h.From[:], session)
		return h, err
	})
	if code(err) == undefinedTable {
		err = cluster.ErrNoCrawl
	}
	if err != nil {
		return nil, e.classify("read hand-overs", err, false)
	}
	return list, nil
}
