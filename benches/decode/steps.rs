//! A filter over 10,000 packets in memory, each at its own place, so that the caches do not help more than they would.

use std::hint::black_box;
use std::time::Instant;

use alertstream::decode::{Decoder, framing};
use alertstream::filter::{Filter, Names, Selection};
use bytes::Bytes;

const PACKETS: usize = 10_000;

/// Prints alerts per second, what each step takes, and what reading the same bytes costs at all.
pub fn tell(decoder: &Decoder, payload: &Bytes) {
    let packets: Vec<Bytes> = (0..PACKETS).map(|_| Bytes::copy_from_slice(payload)).collect();
    let filter = |text: &str| Filter::compile(text, &Names::bundled()).expect("a filter");
    let header = filter("magnitude < 19.5 && rb >= 0.65 && ndethist > 1");
    let fields = filter("candidate.distpsnr1 > 1.0 && candidate.fwhm < 3.0 && candidate.scorr > 5.0");
    let mut copy = vec![0u8; payload.len()];
    let us = |run: &mut dyn FnMut(&Bytes)| {
        let start = Instant::now();
        packets.iter().for_each(run);
        start.elapsed().as_secs_f64() * 1e6 / PACKETS as f64
    };
    us(&mut |p| copy.copy_from_slice(black_box(p)));
    let memcpy = us(&mut |p| copy.copy_from_slice(black_box(p)));
    let framed = us(&mut |p| match framing::detect(p) {
        Ok(framing::Framing::Container(container)) => drop(black_box(container.only_block())),
        other => drop(black_box(other)),
    });
    let validated = us(&mut |p| decoder.validate(p).expect("a packet"));
    let mut decoded = Vec::with_capacity(PACKETS);
    let decode = us(&mut |p| decoded.push(decoder.decode(p).expect("a packet")));
    let select = |filter: &Filter| {
        let start = Instant::now();
        let selected = decoded
            .iter()
            .filter(|p| filter.select(p) == Selection::Selected)
            .count();
        (start.elapsed().as_secs_f64() * 1e6 / PACKETS as f64, selected)
    };
    let (by_header, selected) = select(&header);
    let (by_fields, also) = select(&fields);
    drop(decoded);
    let at_once = {
        let start = Instant::now();
        for packet in &packets {
            black_box(header.select(&decoder.decode(packet).expect("a packet")));
        }
        start.elapsed().as_secs_f64() * 1e6 / PACKETS as f64
    };
    println!(
        "\n{PACKETS} packets in memory ({} MB), one core, cold caches:",
        PACKETS * payload.len() / 1_000_000
    );
    let row = |name: &str, us: f64| println!("  {name:66} {us:7.2} us an alert");
    row("memcpy of the message, for comparison", memcpy);
    row("framing alone", framed);
    row("framing, comparison of the schema, validation of every byte", validated);
    row("the same with header and owned packet: decode", decode);
    row(&format!("filter on 3 header fields, {selected} selected"), by_header);
    row(&format!("filter on 3 fields of the packet, {also} selected"), by_fields);
    row("decode, filter on 3 header fields, drop: alert by alert", at_once);
    let total = decode + by_header;
    println!(
        "  {:.0} alerts/s ({:.0} alert by alert); framing {:.0} %, comparison and validation {:.0} %, header and packet {:.0} %, filter {:.0} %",
        1e6 / total,
        1e6 / at_once,
        1e2 * framed / total,
        1e2 * (validated - framed) / total,
        1e2 * (decode - validated) / total,
        1e2 * by_header / total
    );
}
