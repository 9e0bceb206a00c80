-- Consumer groups: a name bound to one query, its build, its blocks, its consumers.

CREATE TABLE consumer_group (
  group_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name            text NOT NULL UNIQUE,
  query           jsonb NOT NULL,
  query_hash      bytea NOT NULL,
  as_of           pg_snapshot NOT NULL DEFAULT pg_current_snapshot(),
  block_size      int NOT NULL,
  generation      int NOT NULL DEFAULT 1,
  halted          text CHECK (halted IN ('paused', 'failed', 'expired')),  -- null: running
  reason          text,
  created_at      timestamptz NOT NULL DEFAULT now(),
  last_active_at  timestamptz NOT NULL DEFAULT now()
);

-- Locked by the build step only, so administration never waits for a builder.
CREATE TABLE group_build (
  group_id      bigint PRIMARY KEY REFERENCES consumer_group ON DELETE CASCADE,
  watermark_jd  float8 NOT NULL DEFAULT '-Infinity',
  watermark_id  bigint NOT NULL DEFAULT 0,
  next_seq      bigint NOT NULL DEFAULT 0,
  total         bigint NOT NULL DEFAULT 0,
  limit_left    bigint,
  pending       bigint[] NOT NULL DEFAULT '{}',
  built         bool NOT NULL DEFAULT false
);

-- No foreign key: it would take a lock on the group's row with each block.
CREATE TABLE claim_block (
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  group_id     bigint NOT NULL,
  generation   int NOT NULL,
  block_seq    bigint NOT NULL,      -- ordered only by the partial index: keeps the planner off the primary key
  state        smallint NOT NULL DEFAULT 0,  -- 0 free, 1 claimed
  barren       smallint NOT NULL DEFAULT 0,
  trying       int,
  kills        smallint NOT NULL DEFAULT 0,
  owner        int,
  lease        uuid,
  lease_until  timestamptz,
  done         bytea,
  dead         int NOT NULL DEFAULT 0,
  missing      int NOT NULL DEFAULT 0,
  ids          bigint[] NOT NULL
);
CREATE INDEX claim_block_free ON claim_block (group_id, block_seq) WHERE state = 0;
CREATE INDEX claim_block_held ON claim_block (group_id) WHERE state = 1;
-- A claimed block is updated every second and deleted when done: dead rows must go as fast as they come.
ALTER TABLE claim_block SET (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_scale_factor = 0.1, fillfactor = 80);

CREATE TABLE block_done (
  group_id    bigint NOT NULL,
  generation  int NOT NULL,
  block_seq   bigint NOT NULL,
  n           int NOT NULL,
  dead        int NOT NULL,
  missing     int NOT NULL,
  lease       uuid NOT NULL,
  at          timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (group_id, generation, block_seq)
);

-- One row per consumer session; its id is the `owner` of the blocks it holds and the key of its liveness lock.
CREATE TABLE consumer (
  id            int GENERATED ALWAYS AS IDENTITY (CYCLE) PRIMARY KEY,
  group_id      bigint NOT NULL REFERENCES consumer_group ON DELETE CASCADE,
  host          text NOT NULL,
  pid           int NOT NULL,
  started_at    timestamptz NOT NULL DEFAULT now(),
  last_seen_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX consumer_by_group ON consumer (group_id);
