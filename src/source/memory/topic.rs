//! A topic in memory: its alerts, and for each group who owns which lane and how far it is committed.
//!
//! Invariants: see [`memory`](super). Must not know of intakes or streams.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::record::{Lane, RawAlert};
use crate::source::intake::Commit;

/// A topic with a fixed number of lanes and any number of groups. Clones are the same topic.
#[derive(Clone)]
pub struct MemoryTopic {
    shared: Arc<Shared>,
}

struct Shared {
    topic: Mutex<Topic>,
    changed: Notify,
}

#[derive(Default)]
struct Topic {
    lanes: Vec<Vec<RawAlert>>,
    sealed: bool,
    groups: HashMap<String, Group>,
}

#[derive(Default)]
struct Group {
    members: BTreeSet<u64>,
    last_member: u64,
    places: Vec<Place>,
}

#[derive(Clone, Copy, Default)]
struct Place {
    owner: Option<u64>,
    wanted: Option<u64>,
    committed: u64,
}

impl MemoryTopic {
    /// Makes an empty topic with `lanes` lanes (at least one).
    pub fn new(lanes: u32) -> Self {
        let topic = Topic {
            lanes: vec![Vec::new(); lanes.max(1) as usize],
            ..Topic::default()
        };
        Self {
            shared: Arc::new(Shared {
                topic: Mutex::new(topic),
                changed: Notify::new(),
            }),
        }
    }

    /// Appends an alert to a lane; lanes beyond the last one wrap around.
    pub fn push(&self, lane: u32, raw: RawAlert) {
        {
            let mut topic = self.shared.topic.lock();
            let count = topic.lanes.len();
            if let Some(alerts) = topic.lanes.get_mut(lane as usize % count) {
                alerts.push(raw);
            }
        }
        self.shared.changed.notify_waiters();
    }

    /// Says that no more alerts will come: consumers end when their group has committed everything.
    pub fn seal(&self) {
        self.shared.topic.lock().sealed = true;
        self.shared.changed.notify_waiters();
    }

    /// Gives how far a group is committed, per lane.
    pub fn committed(&self, group: &str) -> Vec<u64> {
        let topic = self.shared.topic.lock();
        let places = topic.groups.get(group).map(|group| &group.places);
        places.map_or_else(
            || vec![0; topic.lanes.len()],
            |places| places.iter().map(|place| place.committed).collect(),
        )
    }

    /// Gives the number of consumers in a group.
    pub fn members(&self, group: &str) -> usize {
        self.shared
            .topic
            .lock()
            .groups
            .get(group)
            .map_or(0, |group| group.members.len())
    }

    /// Joins a group; dropping the member leaves it.
    pub(super) fn join(&self, group: &str) -> Member {
        let id = {
            let mut topic = self.shared.topic.lock();
            let lanes = topic.lanes.len();
            let group = topic.groups.entry(group.to_owned()).or_default();
            group.places.resize(lanes, Place::default());
            group.last_member += 1;
            group.members.insert(group.last_member);
            group.share();
            group.last_member
        };
        self.shared.changed.notify_waiters();
        Member {
            topic: self.clone(),
            group: group.to_owned(),
            id,
        }
    }

    pub(super) fn changed(&self) -> Notified<'_> {
        self.shared.changed.notified()
    }

    pub(super) fn get(&self, lane: u32, seq: u64) -> Option<RawAlert> {
        let topic = self.shared.topic.lock();
        topic.lanes.get(lane as usize)?.get(usize::try_from(seq).ok()?).cloned()
    }

    /// Gives the seq after the lane's last one, once there is a last one.
    pub(super) fn end(&self, lane: u32) -> Option<u64> {
        let topic = self.shared.topic.lock();
        topic
            .lanes
            .get(lane as usize)
            .filter(|_| topic.sealed)
            .map(|alerts| alerts.len() as u64)
    }
}

impl fmt::Debug for MemoryTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topic = self.shared.topic.lock();
        let lengths: Vec<usize> = topic.lanes.iter().map(Vec::len).collect();
        f.debug_struct("MemoryTopic")
            .field("lanes", &lengths)
            .field("sealed", &topic.sealed)
            .finish_non_exhaustive()
    }
}

impl Group {
    /// Shares the lanes among the members; each owner sees itself what it has to give up.
    fn share(&mut self) {
        let members: Vec<u64> = self.members.iter().copied().collect();
        for (n, place) in self.places.iter_mut().enumerate() {
            place.wanted = members.get(n % members.len().max(1)).copied();
        }
    }
}

/// One consumer's membership in a group.
pub(super) struct Member {
    topic: MemoryTopic,
    group: String,
    id: u64,
}

impl Member {
    pub(super) fn topic(&self) -> &MemoryTopic {
        &self.topic
    }

    /// Says whether the lane is to be this member's.
    pub(super) fn wants(&self, lane: u32) -> bool {
        self.with(|places| {
            places
                .get(lane as usize)
                .is_some_and(|place| place.wanted == Some(self.id))
        })
    }

    /// Takes the free lanes that are to be this member's; gives each with its committed place.
    pub(super) fn take(&self) -> Vec<(u32, u64)> {
        self.with(|places| {
            let free = (0u32..)
                .zip(places)
                .filter(|(_, p)| p.owner.is_none() && p.wanted == Some(self.id));
            free.map(|(lane, place)| {
                place.owner = Some(self.id);
                (lane, place.committed)
            })
            .collect()
        })
    }

    /// Frees lanes for their next owner.
    pub(super) fn let_go(&self, lanes: &[u32]) {
        self.with(|places| {
            for (lane, place) in (0u32..).zip(places) {
                if lanes.contains(&lane) && place.owner == Some(self.id) {
                    place.owner = None;
                }
            }
        });
        self.topic.shared.changed.notify_waiters();
    }

    /// Moves the group's places in the lanes that this member owns.
    pub(super) fn commit(&self, commits: &[Commit]) {
        self.with(|places| {
            for commit in commits {
                let Lane::Memory(lane) = commit.lane else { continue };
                if let Some(place) = places
                    .get_mut(lane as usize)
                    .filter(|place| place.owner == Some(self.id))
                {
                    place.committed = place.committed.max(commit.upto);
                }
            }
        });
        self.topic.shared.changed.notify_waiters();
    }

    /// Says whether the topic is sealed and the group has committed all of it.
    pub(super) fn is_complete(&self) -> bool {
        let topic = self.topic.shared.topic.lock();
        let Some(group) = topic.groups.get(&self.group) else {
            return false;
        };
        topic.sealed
            && topic
                .lanes
                .iter()
                .zip(&group.places)
                .all(|(alerts, place)| place.committed >= alerts.len() as u64)
    }

    fn with<R>(&self, f: impl FnOnce(&mut [Place]) -> R) -> R {
        let mut topic = self.topic.shared.topic.lock();
        f(topic
            .groups
            .get_mut(&self.group)
            .map_or(&mut [], |group| &mut group.places))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        {
            let mut topic = self.topic.shared.topic.lock();
            if let Some(group) = topic.groups.get_mut(&self.group) {
                group.members.remove(&self.id);
                for place in group.places.iter_mut().filter(|place| place.owner == Some(self.id)) {
                    place.owner = None;
                }
                group.share();
            }
        }
        self.topic.shared.changed.notify_waiters();
    }
}
