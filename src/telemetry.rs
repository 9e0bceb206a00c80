//! Names of spans, span fields and metrics, so that they are written once.

/// Metrics of streams, each with the label [`SOURCE`].
pub mod stream {
    /// Counter: deliveries given out.
    pub const DELIVERED: &str = "alertstream_stream_delivered_total";
    /// Counter: deliveries settled as done.
    pub const ACKED: &str = "alertstream_stream_acked_total";
    /// Counter: deliveries given back.
    pub const RELEASED: &str = "alertstream_stream_released_total";
    /// Counter: deliveries settled as never to be done.
    pub const REJECTED: &str = "alertstream_stream_rejected_total";
    /// Counter: deliveries with an attempt above 1.
    pub const REDELIVERED: &str = "alertstream_stream_redelivered_total";
    /// Counter: settlements that came after their epoch had ended.
    pub const LATE: &str = "alertstream_stream_late_total";
    /// Counter: bytes given out.
    pub const BYTES: &str = "alertstream_stream_bytes_total";
    /// Gauge: deliveries given out and not settled.
    pub const OPEN: &str = "alertstream_stream_open";
    /// Gauge: alerts admitted and not given out.
    pub const WAITING: &str = "alertstream_stream_waiting";
    /// Gauge: bytes taken from the byte budget.
    pub const BUDGET_USED: &str = "alertstream_stream_budget_used_bytes";
    /// Gauge: alerts that remain, where the source knows.
    pub const LAG: &str = "alertstream_stream_lag";
}

/// Label and span field: the source's name.
pub const SOURCE: &str = "source";
