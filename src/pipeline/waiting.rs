//! Deliveries that wait for a schema, per lane in their order.
//!
//! Invariants: while anything of a lane waits, all that the lane delivers waits behind it; what waits is set aside, so
//! that its lane brings no more, and the byte budget of what is set aside bounds it. Must not decode or resolve.

use std::collections::{BTreeSet, HashMap};

use crate::delivery::Delivery;
use crate::record::{Lane, RawAlert};

/// What waits, by lane, with the schema that each lane waits for.
#[derive(Default)]
pub(super) struct Waiting {
    lanes: HashMap<Lane, (u32, Vec<Delivery<RawAlert>>)>,
}

impl Waiting {
    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Gives the number of deliveries that wait.
    pub(super) fn len(&self) -> usize {
        self.lanes.values().map(|(_, waiting)| waiting.len()).sum()
    }

    /// Keeps what stands behind a waiting delivery of its lane; gives the rest.
    pub(super) fn behind(&mut self, turn: Vec<Delivery<RawAlert>>) -> Vec<Delivery<RawAlert>> {
        let mut free = Vec::with_capacity(turn.len());
        for delivery in turn {
            match self.lanes.get_mut(&delivery.position().lane) {
                Some((_, waiting)) => {
                    delivery.set_aside();
                    waiting.push(delivery);
                }
                None => free.push(delivery),
            }
        }
        free
    }

    /// Lets a delivery wait, and says whether it is the first that waits for this schema.
    pub(super) fn add(&mut self, id: u32, delivery: Delivery<RawAlert>) -> bool {
        delivery.set_aside();
        let first = !self.lanes.values().any(|(waits_for, _)| *waits_for == id);
        let lane = delivery.position().lane.clone();
        let (_, waiting) = self.lanes.entry(lane).or_insert_with(|| (id, Vec::new()));
        waiting.push(delivery);
        first
    }

    /// Takes what waits for a schema, and what its lane lost meanwhile lets go.
    pub(super) fn take(&mut self, id: u32) -> Vec<Delivery<RawAlert>> {
        let lanes = self.lanes.iter().filter(|(_, (waits_for, _))| *waits_for == id);
        let lanes: Vec<Lane> = lanes.map(|(lane, _)| lane.clone()).collect();
        let waited = lanes.iter().filter_map(|lane| self.lanes.remove(lane));
        let taken: Vec<_> = waited
            .flat_map(|(_, waiting)| waiting)
            .filter(Delivery::is_open)
            .collect();
        taken.iter().for_each(Delivery::take_up);
        taken
    }

    /// Gives what is left when no more schemas come, if anything is.
    pub(super) fn left(&self) -> Option<Left> {
        let schemas: BTreeSet<u32> = self.lanes.values().map(|(id, _)| *id).collect();
        let alerts = self.len() as u64;
        (alerts > 0).then_some(Left { alerts, schemas })
    }
}

/// Alerts that waited in vain: they are not committed, and come again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) alerts: u64,
    pub(super) schemas: BTreeSet<u32>,
}
