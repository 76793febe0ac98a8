// Package postgres is the store for those who outgrow one machine: one world in one schema of
// a PostgreSQL database, written by any number of daemons. It owns the tables, their versions
// and the connections; the laws of the operations are those of sqlstore. It never decides what
// may be written, never deletes a row of the log, and keeps nothing in memory that another
// daemon can change. Answers spec/23-postgres.md and, as every backend, spec/02-store.md; the
// tables are schema/*.sql.
//
// # A batch in two round trips
//
//  1. BEGIN, the lock on the head row, and what the batch's operations are known to read
//     (sqlstore.Needs) go to the server together (fetch.go). Every writer begins with that
//     lock, so what is read after it stays true until the commit. READ COMMITTED is enough: a
//     statement after the lock sees all that its last holder committed.
//  2. The operations run in memory over what was fetched (tx.go); what they write is kept as
//     rows (buffer.go), one statement for each table, and goes to the server together with
//     COMMIT.
//
// An operation that reads something else sends what was written so far along with the read, in
// a savepoint of its own.
//
// # A commit of unknown outcome
//
// With each batch the writer notes the batch's number in its own row of writers. If a
// connection ends during COMMIT, Settle takes the head's lock over a new one, which it gets
// only when the old transaction has ended, and finds the number there or not.
//
// Nothing is used that engines with the same protocol lack: no advisory locks, no LISTEN, no
// DO blocks, no sequences. Clocks are the database's.
package postgres
