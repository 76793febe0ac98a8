// Package sqlite is the embedded store: one world in one SQLite file in WAL mode, with
// synchronous=FULL, so that what is acknowledged is on disk. It owns the file, its format,
// the indexes in it and the writer lock beside it; the laws of the operations are those of
// sqlstore. It never decides what may be written, and never deletes a row of the log.
// Answers spec/02-store.md; the format is schema.sql.
//
// # Indexes behind the log
//
// An insert at a random key dirties a page of its own, and more of them as the file grows:
// with an index for each hash a call wrote 34 to 78 KB, four fifths of its cost. So only
// rows in order of writing are written with a call. What finds them again is derived:
//
//   - segments (memory.go): sorted rows of what was committed last, one more for each
//     batch, joined so that their number stays logarithmic;
//   - runs (run.go): sorted rows on disk, in blocks of a page; the first bytes of each
//     block, and Bloom filters of hashes and ids, stay in memory;
//   - jobs (job.go): write a run from segments, or one run of several, a slice at a time in
//     the transactions of others;
//   - the state (index.go): an immutable list of runs and segments, replaced as a whole
//     when a transaction is durable.
//
// A run's rows lie in blocks, not in rows of an SQLite table keyed by (run, key): each
// call has about 19 index rows, and inserting one, even at the right edge of a table, took
// 1,700 ns against 300 ns in a block, most of that the disk's; with merges a call would
// spend 100 µs on it. A block also has a checksum, which finds a row that is missing and
// not only one that is wrong. Anybody who opens the file finds all there is in the tables
// of the truth; the indexes hold nothing else.
package sqlite
