//! The Kafka source (see the files of this folder).

pub mod client;
pub mod config;
pub mod error;
pub mod gaps;
pub mod nights;
pub mod place;
