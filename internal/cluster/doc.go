// Package cluster lets several machines work on one crawl. Its state is kept in an
// engine that they share, such as PostgreSQL; this package has the interface of an
// engine, and what a machine computes from its answers: which partitions it should
// own, and whether its lease is valid. DESIGN.md has the rules.
//
// The order of calls: a crawl is made once ([Catalog.Create]). A session joins it
// ([Members.Join]), beats every [BeatEvery], claims partitions, reads their logs, and
// commits batches. After [ErrFenced] or [ErrRolledBack] the session is over: it starts
// no request and commits nothing more. The machine may join again as a new session.
// Engines are safe for concurrent use, but a session has only one call of Commit or
// Change at a time.
package cluster
