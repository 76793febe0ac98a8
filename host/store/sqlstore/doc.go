// Package sqlstore is what is the same for every store that keeps its rows in SQL: the
// group-committing writer, the laws of each operation, the checksum that every row
// carries, the references found in payloads, and the integrity scan. It is written once
// over the primitive rows of a Backend. It never speaks SQL, opens no file and retries
// nothing for a caller. Answers spec/02-store.md.
//
// # How a write becomes durable
//
//  1. The caller's goroutine checks bounds, proves object hashes and finds references. A
//     crash here has changed nothing.
//  2. The operation waits in a bounded queue. If its context ends now it is withdrawn.
//  3. The writer takes what waits, up to MaxBatchOps and MaxBatchBytes, into one
//     transaction, each in its own savepoint. A crash here loses the whole batch, and no
//     caller has been told otherwise.
//  4. The head row is written with the next batch number, and the transaction committed.
//     A crash here is decided by the engine: all of the batch, or none.
//  5. Each caller is answered. A crash before its answer leaves a write that is durable
//     but unacknowledged; the caller asks again by reading.
//
// If step 4 fails, Backend.Settle finds out what is on disk before anyone is answered.
// While it cannot, every write is KindUncertain, and each new one tries to settle first.
package sqlstore
