//! The archive handle: the pool, the migrations, reading packets back.

pub mod groups;
pub mod ingest;
pub mod sql;
