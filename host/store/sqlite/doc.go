// Package sqlite is the embedded store: one world in one SQLite file in WAL mode, with
// synchronous=FULL, so that what is acknowledged is on disk. It owns the file, its format
// and the writer lock beside it; the laws of the operations are those of sqlstore. It
// never decides what may be written, and never deletes a row of the log. Answers
// spec/02-store.md; the format is schema.sql.
package sqlite
