-- One world in one SQLite file. Written by one process at a time, which holds the lock
-- file beside it; anybody may open and read it.
--
-- References are 32-byte BLOBs, NULL for none. seq is one order of writing over all
-- tables. sum is the CRC-32C over the row's table name and columns (host/store/sqlstore,
-- sum.go); a row whose sum does not fit is refused when read.

CREATE TABLE meta ( -- one row: which store this is
  id       INTEGER PRIMARY KEY CHECK (id = 1), -- always 1
  store_id TEXT    NOT NULL,                   -- random, names this store for ever
  version  INTEGER NOT NULL,                   -- of this format
  sum      INTEGER NOT NULL                    -- checksum
);

CREATE TABLE head ( -- one row: where the log stands; rewritten with every batch
  id         INTEGER PRIMARY KEY CHECK (id = 1), -- always 1
  batch      INTEGER NOT NULL,                   -- transactions that wrote anything
  seq        INTEGER NOT NULL,                   -- the last seq given out
  world      BLOB,                               -- the selected world; NULL before genesis
  log_head   BLOB,                               -- hash of the newest entry; NULL before genesis
  next_index INTEGER NOT NULL,                   -- index of the next entry
  sum        INTEGER NOT NULL                    -- checksum
);

CREATE TABLE objects ( -- append-only: payloads under their sha256
  seq            INTEGER PRIMARY KEY, -- place in the order of writing
  hash           BLOB    NOT NULL,    -- sha256 of payload
  interface_hash BLOB,                -- sha256 of the semantic id
  semantic_id    TEXT    NOT NULL,    -- what kind of thing the payload is
  provenance     TEXT    NOT NULL,    -- who stored it first
  size           INTEGER NOT NULL,    -- bytes of payload
  sum            INTEGER NOT NULL,    -- checksum of all but payload
  payload        BLOB    NOT NULL     -- last, so that reading the others does not touch it
);

CREATE TABLE entries ( -- append-only: the log, each entry with the world it led to
  entry_index     INTEGER PRIMARY KEY, -- dense from 0
  seq             INTEGER NOT NULL,    -- place of the entry; that of its world is seq + 1
  semantics_epoch INTEGER NOT NULL,    -- the epoch that nominates interpreter
  transition_fn   BLOB,                -- source that ran
  interpreter     BLOB,                -- engine that ran it
  prev_hash       BLOB,                -- entry_hash of the entry before
  written_by      TEXT    NOT NULL,    -- coordinator:<surface>, or what a REST commit said
  entry_hash      BLOB    NOT NULL,    -- hash of the entry
  transition_ref  BLOB,                -- the invocation record
  world           BLOB    NOT NULL,    -- ref of the world
  revision        INTEGER NOT NULL,    -- of the world; equals entry_index
  state_root      BLOB,                -- of the world: the output
  log_head        BLOB,                -- of the world; equals entry_hash
  sum             INTEGER NOT NULL     -- checksum
);

CREATE TABLE journal ( -- append-only: what was about to be done, and what became of it
  seq         INTEGER PRIMARY KEY, -- place in the order of writing
  kind        INTEGER NOT NULL,    -- 1 effect intent, 2 effect outcome, 3 committed, 4 REST intent, 5 REST intent ended
  invocation  TEXT    NOT NULL,    -- id of the call
  digest      BLOB,                -- 1, 3, 4: what the id is used for
  credential  BLOB,                -- 1, 3, 4: id of the session that used it
  effect_id   TEXT    NOT NULL,    -- 1, 2: id of the effect within the call
  episode     TEXT    NOT NULL,    -- 1: whose budget
  effect      TEXT    NOT NULL,    -- 1: name of the effect
  scope       TEXT    NOT NULL,    -- 1: where
  cost        INTEGER NOT NULL,    -- 1: what was debited
  ref         BLOB,                -- 1: the effect request, 2: the effect record
  entry_index INTEGER NOT NULL,    -- 3: the entry
  sum         INTEGER NOT NULL     -- checksum
);

CREATE TABLE pending ( -- the intents (journal kinds 1 and 4) that have no end yet
  seq INTEGER PRIMARY KEY -- of the journal row
);

CREATE TABLE registry ( -- append-only: each move of a registry head
  seq      INTEGER PRIMARY KEY, -- place in the order of writing
  name     TEXT    NOT NULL,    -- of the registry
  revision INTEGER NOT NULL,    -- counts the moves of a name from 1
  head     BLOB    NOT NULL,    -- the registry object
  sum      INTEGER NOT NULL     -- checksum
);

CREATE TABLE sessions ( -- minted sessions; only revoked ever changes
  seq     INTEGER PRIMARY KEY, -- order of minting
  id      BLOB    NOT NULL,    -- sha256 of the credential, which is kept nowhere
  episode TEXT    NOT NULL,    -- whose calls and budgets
  grants  TEXT    NOT NULL,    -- JSON array of {effect, scope, budget}
  created TEXT    NOT NULL,    -- RFC 3339, UTC
  expires TEXT    NOT NULL,    -- RFC 3339, UTC
  revoked INTEGER NOT NULL,    -- 1 once revoked
  sum     INTEGER NOT NULL     -- checksum
);

CREATE TABLE spend ( -- running sums of what was debited
  episode TEXT    NOT NULL, -- who spent
  effect  TEXT    NOT NULL, -- on what
  scope   TEXT    NOT NULL, -- where
  spent   INTEGER NOT NULL, -- sum of costs
  sum     INTEGER NOT NULL, -- checksum
  PRIMARY KEY (episode, effect, scope)
) WITHOUT ROWID;

CREATE TABLE kept ( -- what is kept beside the log until it ends; the only rows that are replaced and deleted
  id      INTEGER PRIMARY KEY, -- order of keeping; none in the order of writing
  kind    TEXT    NOT NULL,    -- token (a user's), task (a finished one), allowance (what was spent before a day)
  key     BLOB    NOT NULL,    -- 32 bytes that name it within its kind
  expires INTEGER NOT NULL,    -- when it ends, in milliseconds since 1970; it is swept some time after
  sum     INTEGER NOT NULL,    -- checksum, also of body
  body    BLOB    NOT NULL     -- JSON of its kind
);

-- What follows, down to the indexes of single tables, is derived from the tables above
-- and can be made anew from them. A run holds the index rows of the stretch of the truth
-- from after_seq to last_seq; the whole runs follow one another without a gap, and what is
-- past the last one of them (the watermark) is found by reading the tables above from there
-- on. A part of a run is the sorted rows of one index, cut into blocks. Numbers in rows are
-- big-endian; k is the first 8 bytes of a sha256, t the first 16 of the sha256 over a
-- reference's 32 bytes; places have 6 bytes.
--   part 0  objects by hash         k of the hash, seq
--   part 1  entries by hash         k of entry_hash, entry_index
--   part 2  entries by world        k of world, entry_index
--   part 3  journal by invocation   k of the sha256 of invocation, seq
--   part 4  objects by semantic id  k of the sha256 of semantic_id, k of hash, seq
--   part 5  what names a reference  t, seq of what names it, one byte: 1 object payload, 2 entry,
--                                   3 world, 4 registry head; then for 1, 4 seq, for 2, 3 entry_index
--   part 6  entries by episode      first 16 bytes of the sha256 of the episode, entry_index

CREATE TABLE index_runs ( -- the catalogue of runs
  run        INTEGER PRIMARY KEY, -- its number; never used again
  level      INTEGER NOT NULL,    -- how often its rows were merged
  state      INTEGER NOT NULL,    -- 1 being written, 2 whole, 3 being deleted
  after_seq  INTEGER NOT NULL,    -- seq of the row before its first
  last_seq   INTEGER NOT NULL,    -- seq of its last row
  next_index INTEGER NOT NULL,    -- index of the first entry past it
  sum        INTEGER NOT NULL     -- checksum
);

CREATE TABLE index_parts ( -- the parts of each whole run
  run         INTEGER NOT NULL, -- the run
  part        INTEGER NOT NULL, -- which index
  row_count   INTEGER NOT NULL, -- rows in it
  block_count INTEGER NOT NULL, -- blocks that hold them
  sum         INTEGER NOT NULL, -- checksum
  PRIMARY KEY (run, part)
) WITHOUT ROWID;

CREATE TABLE index_blocks ( -- sorted rows, one after the other, and what finds them
  id   INTEGER PRIMARY KEY, -- run * 2^28 + part * 2^24 + number; with part + 8, what finds blocks: the first bytes of each (8; part 4: 16, parts 5 and 6: 22), then for parts 0 to 3 a Bloom filter of the keys
  data BLOB    NOT NULL,    -- the bytes
  sum  INTEGER NOT NULL     -- CRC-32C of the id as 8 bytes, and the data
);

CREATE UNIQUE INDEX registry_by_name ON registry (name, revision);
CREATE UNIQUE INDEX sessions_by_id ON sessions (id);
CREATE INDEX sessions_by_episode ON sessions (episode, seq);
CREATE INDEX sessions_live ON sessions (episode, seq) WHERE revoked = 0;
CREATE UNIQUE INDEX kept_by_key ON kept (kind, key);
CREATE INDEX kept_by_end ON kept (expires);
