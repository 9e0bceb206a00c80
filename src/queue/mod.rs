//! The fair multi-FIFO queue: a public module that knows nothing of alerts.

pub mod core;
