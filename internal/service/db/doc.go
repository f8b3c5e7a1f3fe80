// Package db keeps the service's records in a SQLite database.
//
// Open makes or migrates the database. Write runs one transaction at a time on the only connection that writes; Read is
// for queries, which see what was committed before they began and wait for no writer. Other processes may have the same
// file open. Close ends both.
//
// The SQL of all users of this package is in the form that PostgreSQL also reads, but for the placeholders.
package db
