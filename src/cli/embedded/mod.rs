//! Services started inside the command line and the tests: a private Postgres, a database of one's own, librdkafka's
//! mock broker.

pub mod database;
pub mod mock_kafka;
pub mod postgres;
