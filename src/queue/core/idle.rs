//! The empty keys in the order in which they became empty: a linked list through the keys' numbers.
//!
//! Invariants: every operation is O(1); a key stands in the list once or not at all. Must not know what a key is.
#![allow(clippy::indexing_slicing)] // `links` is grown to hold every id before it is linked; links point at linked ids

use super::{Nanos, SlotId};

const NONE: SlotId = SlotId::MAX;

#[derive(Clone, Copy)]
struct Link {
    before: SlotId,
    after: SlotId,
    since: Nanos,
    linked: bool,
}

const UNLINKED: Link = Link {
    before: NONE,
    after: NONE,
    since: 0,
    linked: false,
};

pub(super) struct IdleList {
    links: Vec<Link>,
    first: SlotId,
    last: SlotId,
    len: usize,
}

impl Default for IdleList {
    fn default() -> Self {
        Self {
            links: Vec::new(),
            first: NONE,
            last: NONE,
            len: 0,
        }
    }
}

impl IdleList {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The key that is empty for longest, and since when.
    pub(super) fn first(&self) -> Option<(SlotId, Nanos)> {
        (self.first != NONE).then(|| (self.first, self.links[self.first as usize].since))
    }

    /// Since when the key is empty, if it is.
    pub(super) fn since(&self, id: SlotId) -> Option<Nanos> {
        self.links
            .get(id as usize)
            .filter(|link| link.linked)
            .map(|link| link.since)
    }

    /// Adds a key as the last; one that is in the list keeps its place.
    pub(super) fn push(&mut self, id: SlotId, since: Nanos) {
        if id as usize >= self.links.len() {
            self.links.resize(id as usize + 1, UNLINKED);
        }
        if self.links[id as usize].linked {
            return;
        }
        self.links[id as usize] = Link {
            before: self.last,
            after: NONE,
            since,
            linked: true,
        };
        if self.last == NONE {
            self.first = id;
        } else {
            self.links[self.last as usize].after = id;
        }
        self.last = id;
        self.len += 1;
    }

    pub(super) fn remove(&mut self, id: SlotId) {
        let Some(&link) = self.links.get(id as usize).filter(|link| link.linked) else {
            return;
        };
        self.links[id as usize] = UNLINKED;
        if link.before == NONE {
            self.first = link.after;
        } else {
            self.links[link.before as usize].after = link.after;
        }
        if link.after == NONE {
            self.last = link.before;
        } else {
            self.links[link.after as usize].before = link.before;
        }
        self.len -= 1;
    }

    /// Gives memory back: keys from `ids` on are unknown.
    pub(super) fn truncate(&mut self, ids: usize) {
        self.links.truncate(ids);
        if self.links.capacity() > 1024 && self.links.capacity() / 4 > ids {
            self.links.shrink_to(ids * 2);
        }
    }
}
