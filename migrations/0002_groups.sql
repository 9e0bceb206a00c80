-- Consumer groups: a name bound to one query, its build, its blocks, its consumers.

CREATE TABLE consumer_group (
  group_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name            text NOT NULL UNIQUE,
  query           jsonb NOT NULL,
  query_hash      bytea NOT NULL,
  as_of           pg_snapshot NOT NULL DEFAULT pg_current_snapshot(),
  block_size      int NOT NULL CHECK (block_size > 0),
  generation      int NOT NULL DEFAULT 1,
  halted          text CHECK (halted IN ('paused', 'failed', 'expired')),  -- null: running
  reason          text,
  expire_after    interval,                                                -- null: never
  created_at      timestamptz NOT NULL DEFAULT now(),
  last_active_at  timestamptz NOT NULL DEFAULT now()
);

-- Locked by the build step only, so administration never waits for a builder.
CREATE TABLE group_build (
  group_id       bigint PRIMARY KEY REFERENCES consumer_group ON DELETE CASCADE,
  watermark_jd   float8 NOT NULL DEFAULT '-Infinity',
  watermark_id   bigint NOT NULL DEFAULT '-9223372036854775808',
  rank           bigint NOT NULL DEFAULT 0,            -- alerts that matched so far, before slicing and limit
  next_seq       bigint NOT NULL DEFAULT 0,            -- blocks so far
  total          bigint NOT NULL DEFAULT 0,            -- alerts in them
  limit_left     bigint,
  pending        bigint[] NOT NULL DEFAULT '{}',       -- taken, but not a full block yet
  pending_bytes  bigint NOT NULL DEFAULT 0,
  skip_blocks    bigint NOT NULL DEFAULT 0,            -- blocks before this place are done as they are built: see `seek`
  built          bool NOT NULL DEFAULT false
);

-- What was folded out of block_done, so that showing a group costs the same however much of it is done. Written by
-- whoever folds (an idle consumer, `show`), never by a claim or an acknowledgement.
CREATE TABLE group_tally (
  group_id    bigint PRIMARY KEY REFERENCES consumer_group ON DELETE CASCADE,
  generation  int NOT NULL DEFAULT 1,
  blocks      bigint NOT NULL DEFAULT 0,
  alerts      bigint NOT NULL DEFAULT 0,
  dead        bigint NOT NULL DEFAULT 0,
  missing     bigint NOT NULL DEFAULT 0
);

-- No foreign key: it would take a lock on the group's row with each block.
CREATE TABLE claim_block (
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  group_id     bigint NOT NULL,
  block_seq    bigint NOT NULL,              -- ordered only by the partial index: keeps the planner off the primary key
  generation   int NOT NULL,
  n            int NOT NULL,                 -- alerts in it
  settled      int NOT NULL DEFAULT 0,       -- bits in `done`; dead and missing are among them
  dead         int NOT NULL DEFAULT 0,
  missing      int NOT NULL DEFAULT 0,
  trying       int,
  owner        int,
  lease_until  timestamptz,
  lease        uuid,
  state        smallint NOT NULL DEFAULT 0,  -- 0 free, 1 claimed
  barren       smallint NOT NULL DEFAULT 0,
  kills        smallint NOT NULL DEFAULT 0,
  done         bytea,
  ids          bigint[] NOT NULL
);
-- Out of line, so that a renewed lease does not copy them.
ALTER TABLE claim_block ALTER COLUMN ids SET STORAGE EXTERNAL;
CREATE INDEX claim_block_free ON claim_block (group_id, block_seq) WHERE state = 0;
CREATE INDEX claim_block_held ON claim_block (group_id) WHERE state = 1;
-- Given back half done: few, and `show` must find them without reading the free ones.
CREATE INDEX claim_block_partly ON claim_block (group_id) WHERE state = 0 AND settled > 0;
-- A claimed block is updated every second and deleted when done: dead rows must go as fast as they come.
ALTER TABLE claim_block SET (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_scale_factor = 0.1, fillfactor = 80);

-- Finished blocks that are not in the tally yet: few, since idle consumers fold them every other second.
CREATE TABLE block_done (
  group_id    bigint NOT NULL,
  block_seq   bigint NOT NULL,
  generation  int NOT NULL,
  n           int NOT NULL,
  dead        int NOT NULL,
  missing     int NOT NULL,
  lease       uuid NOT NULL,
  PRIMARY KEY (group_id, generation, block_seq)
);
ALTER TABLE block_done SET (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- The leases of those that were folded, kept for some minutes: they tell an acknowledgement whose answer was lost from
-- one that came too late.
CREATE TABLE block_receipt (
  at     timestamptz NOT NULL DEFAULT now(),
  lease  uuid PRIMARY KEY
);
CREATE INDEX block_receipt_by_age ON block_receipt (at);

-- One row per consumer session; its id is the `owner` of the blocks it holds and the key of its liveness lock.
CREATE TABLE consumer (
  id            int GENERATED ALWAYS AS IDENTITY (CYCLE) PRIMARY KEY,
  group_id      bigint NOT NULL REFERENCES consumer_group ON DELETE CASCADE,
  host          text NOT NULL,
  pid           int NOT NULL,
  locks         bool NOT NULL DEFAULT true, -- false: leases only, an unheld lock says nothing
  rate          float8,                     -- alerts settled per second, lately
  started_at    timestamptz NOT NULL DEFAULT now(),
  last_seen_at  timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
CREATE INDEX consumer_by_group ON consumer (group_id);
