//! What the decoder allocates: nothing per alert in the steady state, and never more than a packet is long.

#![allow(unsafe_code, reason = "a counting allocator has no safe form")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use alertstream::decode::{Arena, Decoder};
use bytes::Bytes;

use crate::generate::{self, Dice};

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

/// Counts what each thread asks for.
struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; the counters are plain cells of the thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize, 1);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(-(layout.size() as isize), 0);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn note(bytes: isize, calls: usize) {
    let _ = COUNT.try_with(|count| count.set(count.get() + calls));
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = MOST.try_with(|most| most.set(most.get().max(held.get())));
    });
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs something; gives by how much the memory held by this thread grew at most, bytes.
pub fn largest_growth<T>(run: impl FnOnce() -> T) -> (usize, T) {
    let before = HELD.with(Cell::get);
    MOST.with(|most| most.set(before));
    let result = run();
    (MOST.with(Cell::get).saturating_sub(before).max(0) as usize, result)
}

/// Whether the counter counts.
pub fn untouched() -> bool {
    let before = COUNT.with(Cell::get);
    drop(std::hint::black_box(Box::new(1)));
    COUNT.with(Cell::get) == before + 1
}

/// Counts the allocations of something.
fn allocations(run: impl FnOnce()) -> usize {
    let before = COUNT.with(Cell::get);
    run();
    COUNT.with(Cell::get) - before
}

/// Packets of ZTF's latest schema and of Rubin's, in both framings.
fn packets() -> Vec<Bytes> {
    let ztf = include_str!("../../schemas/ztf/v4.02.json");
    let rubin = include_str!("../../schemas/lsst/v9.0.json");
    let mut dice = Dice::new(7);
    let mut packets = Vec::new();
    for _ in 0..20 {
        let datum = generate::datum(&serde_json::from_str(ztf).unwrap(), &mut dice, 500);
        packets.push(generate::container(ztf, &datum).into());
        let datum = generate::datum(&serde_json::from_str(rubin).unwrap(), &mut dice, 500);
        packets.push(generate::confluent(900, &datum).into());
    }
    packets
}

#[test]
fn validating_and_full_decoding_allocate_nothing_in_the_steady_state() {
    let decoder = Decoder::bundled();
    let mut arena = Arena::new();
    let packets = packets();
    let mut round = || {
        for packet in &packets {
            decoder.validate(packet).unwrap();
            decoder.decode_into(packet, &mut arena).unwrap();
        }
    };
    round();
    assert_eq!(allocations(round), 0);
}

#[test]
fn a_packet_costs_its_header_and_no_copy() {
    let decoder = Decoder::bundled();
    for payload in &packets() {
        let _ = decoder.decode(payload).unwrap();
        let (grown, packet) = largest_growth(|| decoder.decode(payload).unwrap());
        assert!(grown < 1024, "{grown} bytes");
        assert_eq!(packet.bytes().as_ptr(), payload.as_ptr());
    }
}

#[test]
fn typed_views_allocate_nothing_in_the_steady_state() {
    let decoder = Decoder::bundled();
    let mut arena = Arena::new();
    let packets: Vec<_> = packets().iter().map(|p| decoder.decode(p).unwrap()).collect();
    let mut round = || {
        for packet in &packets {
            if let Some(ztf) = packet.ztf(&mut arena) {
                std::hint::black_box(ztf.previous().filter(|p| !p.is_upper_limit()).count());
            }
            if let Some(rubin) = packet.rubin(&mut arena) {
                std::hint::black_box(rubin.previous().filter_map(|s| s.psf_flux()).sum::<f64>());
            }
        }
    };
    round();
    assert_eq!(allocations(round), 0);
}
