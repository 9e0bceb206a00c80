//! The archive writer as the pipeline's batch handler: ingesting is processing with another handler.
//!
//! Invariants: an alert is done only after its batch was committed; what may pass is retried, what the database refuses
//! of one packet makes a dead letter of that packet alone. Must not know how rows are written.

use std::sync::Arc;

use super::ArchiveError;
use super::ingest::{ArchiveWriter, Incoming};
use crate::decode::packet::Packet;
use crate::error::ErrorClass;
use crate::processor::{BatchHandler, Context, HandleError};

impl BatchHandler for ArchiveWriter {
    async fn handle_batch(&self, alerts: &[Packet], cx: &[Context<'_>]) -> Vec<Result<(), HandleError>> {
        let batch = alerts.iter().zip(cx).map(|(packet, cx)| Incoming {
            origin: cx.origin.cloned(),
            reframed: cx.reframed,
            ..Incoming::from(packet)
        });
        self.write(batch.collect())
            .await
            .into_iter()
            .map(|result| result.map(drop).map_err(handle_error))
            .collect()
    }
}

fn handle_error(error: Arc<ArchiveError>) -> HandleError {
    match error.class() {
        ErrorClass::Transient => HandleError::Retry {
            after: None,
            cause: error.into(),
        },
        ErrorClass::Poison => HandleError::Reject { cause: error.into() },
        ErrorClass::Fatal => HandleError::Fatal { cause: error.into() },
    }
}
