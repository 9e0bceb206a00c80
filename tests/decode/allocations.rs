//! What the decoder allocates: nothing per alert in the steady state, and never more than a packet is long.

use alertstream::decode::{Arena, Decoder};
use bytes::Bytes;

use crate::counting::{Counting, calls, largest_growth};
use crate::generate::{self, Dice};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Whether the counter counts.
pub fn untouched() -> bool {
    let before = calls();
    drop(std::hint::black_box(Box::new(1)));
    calls() == before + 1
}

/// Counts the allocations of something.
fn allocations(run: impl FnOnce()) -> usize {
    let before = calls();
    run();
    calls() - before
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
