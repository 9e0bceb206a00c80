//! The Kafka source against librdkafka's mock cluster everywhere, and against a real broker where one is named.
//!
//! A real broker is taken from `KAFKA_BOOTSTRAP_SERVERS` (and the SASL variables that `docker/kafka.sh` prints). What
//! only it can show says `skipped: NAME (no broker)` without one.

mod broker;
mod chaos;
mod guarantees;
mod limits;
mod ports;
mod reading;
mod real;
mod tight;
mod waiting;
