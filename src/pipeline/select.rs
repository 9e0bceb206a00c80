//! The handler of `run`: the filter decides, the sink writes what is selected.
//!
//! Invariants: an alert counts as selected when its line is written; what the filter finds undefined is not selected.
//! Must not know of queues and streams.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde::Serialize;

use crate::decode::packet::Packet;
use crate::filter::{Filter, Selection};
use crate::processor::{Context, HandleError, Handler};
use crate::record::SourceId;
use crate::sink::{Place, Sink};

/// Selects alerts by a filter and writes them to a sink.
#[derive(Debug)]
pub struct Selector {
    filter: Option<Filter>,
    sink: Sink,
    counts: Mutex<BTreeMap<SourceId, Selected>>,
}

/// What was selected of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Selected {
    /// Alerts that the filter selects, each written.
    pub selected: u64,
    /// Alerts for which the filter says nothing: something it needs is null, absent or NaN.
    pub undefined: u64,
}

impl Selector {
    /// Makes the handler; without a filter every alert is selected.
    pub fn new(filter: Option<Filter>, sink: Sink) -> Self {
        Self {
            filter,
            sink,
            counts: Mutex::default(),
        }
    }

    /// Gives the counts of a source.
    pub fn counts(&self, source: &SourceId) -> Selected {
        self.counts.lock().get(source).copied().unwrap_or_default()
    }

    fn count(&self, source: &SourceId, add: impl FnOnce(&mut Selected)) {
        add(self.counts.lock().entry(source.clone()).or_default());
    }
}

impl Handler for Selector {
    async fn handle(&self, alert: &Packet, cx: &Context<'_>) -> Result<(), HandleError> {
        match self
            .filter
            .as_ref()
            .map_or(Selection::Selected, |filter| filter.select(alert))
        {
            Selection::Selected => {}
            Selection::NotSelected => return Ok(()),
            Selection::Undefined => {
                self.count(cx.source, |counts| counts.undefined += 1);
                return Ok(());
            }
        }
        let place = Place {
            source: cx.source,
            position: cx.position,
            attempt: cx.attempt,
        };
        // No alert is at fault when a line cannot be written: the run ends, and they are delivered again.
        self.sink
            .write(alert, &place)
            .await
            .map_err(|error| HandleError::Fatal { cause: error.into() })?;
        self.count(cx.source, |counts| counts.selected += 1);
        Ok(())
    }
}
