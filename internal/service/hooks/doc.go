// Package hooks keeps the webhooks of accounts and their deliveries in the database, and has them delivered.
//
// Run delivers until its context ends; the other methods may be called by any goroutine, whether or not Run is under
// way. An attempt is recorded after it was made: if the process is killed in between, the same delivery is sent again,
// with the same id. So every delivery arrives at least once, or is recorded as failed. DESIGN.md has the rules.
package hooks
