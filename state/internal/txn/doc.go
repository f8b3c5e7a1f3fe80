// Package txn writes to Badger in transactions: while Badger writes one, the next one is put together. There is never
// more than one on its way, so they arrive in order and are known to have arrived.
//
// Badger splits or refuses transactions that are too large. A [Writer] counts entries and bytes as Badger does and says
// when a transaction has to be sent. It copies keys and values into memory that it uses again.
package txn
