// Package webhook delivers signed messages to receivers over HTTP, with retries.
//
// A Store keeps the deliveries. A Sender takes those that are due, makes one attempt each and records what became of
// it. An attempt is recorded after it was made: if the process is killed in between, the same delivery is sent again,
// with the same id. So every delivery arrives at least once, or is recorded as failed. DESIGN.md has the rules.
package webhook
