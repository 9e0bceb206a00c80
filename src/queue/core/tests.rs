//! Unit tests of the rule: the golden traces, and the tables behind the rule against simple models.

use std::num::NonZeroU32;

use super::*;

fn rules() -> Rules {
    Rules {
        idle_grace: 60,
        idle_keys_max: 1024,
        key_capacity: Capacity::UNBOUNDED,
        total_capacity: Capacity::UNBOUNDED,
        reserve_per_key: 0,
        key_limit: NonZeroU32::MAX,
    }
}

fn put(core: &mut Core<&'static str, u64>, key: &'static str, item: u64, now: Nanos) {
    let id = core.intern(&key, now, |_| 0);
    core.put(
        id,
        Entry {
            item,
            at: now,
            bytes: 0,
            exclusive: false,
            holds: false,
        },
        now,
    );
}

fn served(core: &mut Core<&'static str, u64>, now: Nanos) -> Option<(&'static str, u64)> {
    let taken = core.take(now)?;
    core.done(taken.slot, now);
    Some((taken.key, taken.entry.item))
}

#[test]
fn an_idle_key_keeps_its_place_for_the_grace_time_only() {
    for (pause, expected) in [(59, "a"), (60, "b")] {
        let mut core = Core::new(rules());
        put(&mut core, "a", 0, 0);
        served(&mut core, 0);
        put(&mut core, "b", 0, 0);
        served(&mut core, 0);
        put(&mut core, "b", 1, pause);
        put(&mut core, "a", 1, pause);
        // `a` was served before `b`, so it comes first while both are remembered; both forgotten, `b` is put first.
        assert_eq!(served(&mut core, pause).unwrap().0, expected, "{pause}");
    }
}

#[test]
fn at_most_so_many_idle_keys_are_remembered() {
    let mut core = Core::new(Rules {
        idle_keys_max: 2,
        ..rules()
    });
    for key in ["a", "b", "c", "d"] {
        put(&mut core, key, 0, 0);
        served(&mut core, 0);
    }
    assert_eq!(core.known(), 2);
    assert!(core.find(&"a").is_none() && core.find(&"d").is_some());
}

#[test]
fn a_key_with_settings_is_kept_but_loses_its_place() {
    let mut core = Core::new(rules());
    let id = core.intern(&"a", 0, |_| 0);
    core.set(id, 0, |settings| settings.weight = NonZeroU32::new(2).unwrap());
    assert_eq!(core.known(), 0);
    put(&mut core, "a", 0, 0);
    assert_eq!(core.known(), 1);
    served(&mut core, 0);
    core.forget_expired(60, usize::MAX);
    assert_eq!((core.known(), core.find(&"a")), (0, Some(id)));
    core.set(id, 60, |settings| settings.weight = NonZeroU32::MIN);
    assert_eq!(core.find(&"a"), None);
}

#[test]
fn forgotten_keys_give_their_memory_back() {
    let mut core: Core<u64, u64> = Core::new(rules());
    for key in 0..100_000 {
        let id = core.intern(&key, 0, |_| 0);
        core.put(
            id,
            Entry {
                item: key,
                at: 0,
                bytes: 0,
                exclusive: false,
                holds: false,
            },
            0,
        );
    }
    while let Some(taken) = core.take(0) {
        core.done(taken.slot, 0);
    }
    assert_eq!(core.known(), 1024);
    core.forget_expired(60, usize::MAX);
    assert_eq!((core.known(), core.slots.len(), core.free.len()), (0, 0, 0));
    assert!(core.slots.capacity() <= 1024 && core.index.capacity() <= 2048);
}

#[test]
fn the_totals_always_balance() {
    let mut core = Core::new(rules());
    let mut random = 1_u64;
    let mut tickets = Vec::new();
    for now in 0..20_000 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let dice = random >> 33;
        let key = dice / 10 % 7;
        match dice % 10 {
            0..=2 => {
                let id = core.intern(&key, now, |_| 0);
                core.put(
                    id,
                    Entry {
                        item: now,
                        at: now,
                        bytes: 3,
                        exclusive: dice.is_multiple_of(3),
                        holds: false,
                    },
                    now,
                );
            }
            3 => {
                let id = core.intern(&key, now, |_| 0);
                core.defer(
                    id,
                    Entry {
                        item: now,
                        at: now,
                        bytes: 3,
                        exclusive: false,
                        holds: false,
                    },
                    now + dice % 50,
                    now,
                );
            }
            4..=6 => tickets.extend(core.take(now)),
            7 => drop(core.find(&key).map(|id| core.clear(id, now))),
            8 => {
                if let Some(taken) = tickets.pop() {
                    core.requeue(taken.slot, taken.entry, Place::Back, now);
                }
            }
            _ => drop(tickets.pop().map(|taken| core.done(taken.slot, now))),
        }
        core.advance(now, |_| ());
        let t = core.totals();
        assert_eq!(
            t.queued as u64 + t.in_progress as u64 + t.deferred as u64 + t.done + t.dropped,
            t.put
        );
        assert_eq!(t.in_progress, tickets.len());
        assert_eq!(core.held.items, t.queued + t.deferred);
        assert_eq!(core.held.bytes, 3 * core.held.items as u64);
    }
}
