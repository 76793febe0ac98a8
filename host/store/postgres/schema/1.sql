-- One world in one schema. Any number of daemons write it, one transaction at a time: each
-- begins by locking the row of head.
--
-- References are 32 bytes, NULL for none. seq is one order of writing over all tables. sum is
-- the CRC-32C over the row's table name and columns (host/store/sqlstore, sum.go); a row
-- whose sum does not fit is refused when read. In texts \xHH stands for a byte that UTF-8
-- text cannot hold, and for the backslash itself. Columns that end in _key are the sha256 of
-- a text, which may be longer than an index can hold.

CREATE TABLE meta (
  id       bigint PRIMARY KEY CHECK (id = 1),
  store_id text   NOT NULL,
  sum      bigint NOT NULL
);
COMMENT ON TABLE meta IS 'one row: which store this is; store_id is random and names it for ever';

CREATE TABLE head (
  id         bigint PRIMARY KEY CHECK (id = 1),
  batch      bigint NOT NULL,
  seq        bigint NOT NULL,
  world      bytea,
  log_head   bytea,
  next_index bigint NOT NULL,
  sum        bigint NOT NULL
);
COMMENT ON TABLE head IS 'one row: where the log stands; locked by whoever writes';

CREATE TABLE writers (
  id    text        PRIMARY KEY,
  batch bigint      NOT NULL,
  until timestamptz NOT NULL,
  sum   bigint      NOT NULL
);
COMMENT ON TABLE writers IS 'daemons: batch is the last of its transactions that is durable; it is taken to be alive until a moment by the clock of the database, which is in no checksum';

CREATE TABLE leases (
  episode_key bytea       PRIMARY KEY,
  episode     text        NOT NULL,
  holder      text        NOT NULL,
  fence       bigint      NOT NULL,
  wanted      text        NOT NULL,
  wanted_till timestamptz NOT NULL,
  sum         bigint      NOT NULL
);
COMMENT ON TABLE leases IS 'whose turn an episode is: holder is a writer, for as long as that one is alive, or empty; fence tells its turns apart; wanted is a writer that waits, and goes first until a moment; what is wanted is in no checksum';

CREATE TABLE objects (
  seq            bigint PRIMARY KEY,
  hash           bytea  NOT NULL,
  interface_hash bytea,
  semantic_key   bytea  NOT NULL,
  semantic_id    text   NOT NULL,
  provenance     text   NOT NULL,
  size           bigint NOT NULL,
  sum            bigint NOT NULL,
  payload        bytea  NOT NULL
);
COMMENT ON TABLE objects IS 'append-only: payloads under their sha256';
CREATE UNIQUE INDEX objects_by_hash ON objects (hash);
CREATE INDEX objects_by_name ON objects (semantic_key, hash);

CREATE TABLE entries (
  entry_index     bigint PRIMARY KEY,
  seq             bigint NOT NULL,
  semantics_epoch bigint NOT NULL,
  transition_fn   bytea,
  interpreter     bytea,
  prev_hash       bytea,
  written_by      text   NOT NULL,
  entry_hash      bytea  NOT NULL,
  transition_ref  bytea,
  world           bytea  NOT NULL,
  revision        bigint NOT NULL,
  state_root      bytea,
  log_head        bytea,
  sum             bigint NOT NULL
);
COMMENT ON TABLE entries IS 'append-only: the log, each entry with the world it led to';
CREATE UNIQUE INDEX entries_by_hash ON entries (entry_hash);
CREATE UNIQUE INDEX entries_by_world ON entries (world);

CREATE TABLE journal (
  seq         bigint PRIMARY KEY,
  kind        bigint NOT NULL,
  call_key    bytea  NOT NULL,
  episode_key bytea,
  invocation  text   NOT NULL,
  digest      bytea,
  credential  bytea,
  effect_id   text   NOT NULL,
  episode     text   NOT NULL,
  effect      text   NOT NULL,
  scope       text   NOT NULL,
  cost        bigint NOT NULL,
  ref         bytea,
  entry_index bigint NOT NULL,
  sum         bigint NOT NULL
);
COMMENT ON TABLE journal IS 'append-only: what was about to be done, and what became of it. kind: 1 effect intent, 2 effect outcome, 3 committed, 4 REST intent, 5 REST intent ended. episode_key, of kind 3 alone, is of the episode of the call';
CREATE INDEX journal_by_call ON journal (call_key, seq);
CREATE INDEX journal_by_episode ON journal (episode_key, entry_index);

CREATE TABLE pending (
  seq    bigint PRIMARY KEY,
  writer text   NOT NULL,
  sum    bigint NOT NULL
);
COMMENT ON TABLE pending IS 'the intents (journal kinds 1 and 4) that have no end yet, and who wrote them or took them over';

CREATE TABLE registry (
  seq      bigint PRIMARY KEY,
  name_key bytea  NOT NULL,
  name     text   NOT NULL,
  revision bigint NOT NULL,
  head     bytea  NOT NULL,
  sum      bigint NOT NULL
);
COMMENT ON TABLE registry IS 'append-only: each move of a registry head';
CREATE UNIQUE INDEX registry_by_name ON registry (name_key, revision);

CREATE TABLE sessions (
  seq         bigint PRIMARY KEY,
  id          bytea  NOT NULL,
  episode_key bytea  NOT NULL,
  episode     text   NOT NULL,
  grants      text   NOT NULL,
  created     text   NOT NULL,
  expires     text   NOT NULL,
  revoked     bigint NOT NULL,
  sum         bigint NOT NULL
);
COMMENT ON TABLE sessions IS 'minted sessions; id is the sha256 of the credential, which is kept nowhere; only revoked ever changes';
CREATE UNIQUE INDEX sessions_by_id ON sessions (id);
CREATE INDEX sessions_by_episode ON sessions (episode_key, seq);

CREATE TABLE spend (
  spend_key bytea  PRIMARY KEY,
  episode   text   NOT NULL,
  effect    text   NOT NULL,
  scope     text   NOT NULL,
  spent     bigint NOT NULL,
  sum       bigint NOT NULL
);
COMMENT ON TABLE spend IS 'running sums of what was debited';

CREATE TABLE kept (
  id      bigint PRIMARY KEY,
  kind    text   NOT NULL,
  key     bytea  NOT NULL,
  expires bigint NOT NULL,
  sum     bigint NOT NULL,
  body    bytea  NOT NULL
);
COMMENT ON TABLE kept IS 'what is kept beside the log until it ends, in milliseconds since 1970; the only rows that are replaced and deleted';
CREATE UNIQUE INDEX kept_by_key ON kept (kind, key);
CREATE INDEX kept_by_end ON kept (expires);

CREATE TABLE refs (
  target bytea  NOT NULL,
  seq    bigint NOT NULL,
  kind   bigint NOT NULL,
  place  bigint NOT NULL,
  sum    bigint NOT NULL
);
COMMENT ON TABLE refs IS 'derived: what names a reference. kind: 1 the payload of an object, 2 an entry, 3 a world, 4 a registry head; place is the seq of 1 and 4, the entry_index of 2 and 3';
CREATE UNIQUE INDEX refs_by_target ON refs (target, seq);
