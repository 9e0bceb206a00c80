//! Services started inside the command line and the tests: a private Postgres, librdkafka's mock broker.

pub mod mock_kafka;
pub mod postgres;
