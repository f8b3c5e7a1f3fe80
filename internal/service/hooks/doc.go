// Package hooks keeps the webhooks of accounts and their deliveries in the database, and has them delivered.
//
// Run delivers until its context ends; the other methods may be called by any goroutine, whether or not Run is under
// way. How a delivery is made, and what holds after a kill, is in package webhook.
package hooks
