//! What hostile and damaged packets cost: time and memory of each, the worst of them named.

use std::time::Instant;

use alertstream::decode::Decoder;
use bytes::Bytes;

use crate::counting::count;
use crate::generate::{self, Dice};
use crate::hostile;

const SECONDS_MAX: f64 = 0.050;
const BYTES_MAX: u64 = 64 << 20;
const MUTATIONS: usize = 20_000;

/// The worst of a suite.
#[derive(Default)]
struct Worst {
    seconds: (f64, String),
    bytes: (u64, String),
    inputs: usize,
    accepted: usize,
}

impl Worst {
    fn try_one(&mut self, decoder: &Decoder, name: &str, payload: &Bytes, bytes: u64) {
        let once = || {
            let start = Instant::now();
            let accepted = decoder.decode(payload).is_ok();
            (start.elapsed().as_secs_f64(), accepted)
        };
        let (seconds, accepted) = once();
        // A pause of the machine is no cost of the packet: what seems slow is tried again.
        let seconds = if seconds > SECONDS_MAX / 10.0 {
            (0..4).map(|_| once().0).fold(seconds, f64::min)
        } else {
            seconds
        };
        self.inputs += 1;
        self.accepted += usize::from(accepted);
        if seconds > self.seconds.0 {
            self.seconds = (seconds, name.to_owned());
        }
        if bytes > self.bytes.0 {
            self.bytes = (bytes, name.to_owned());
        }
    }

    fn tell(&self, suite: &str) -> bool {
        let met = self.seconds.0 <= SECONDS_MAX && self.bytes.0 <= BYTES_MAX;
        println!(
            "{} {suite}: {} inputs, {} accepted; slowest {:.2} ms ({}), largest {:.2} MiB ({}); at most 50 ms and 64 MiB",
            if met { "met   " } else { "MISSED" },
            self.inputs,
            self.accepted,
            self.seconds.0 * 1e3,
            self.seconds.1,
            self.bytes.0 as f64 / f64::from(1 << 20),
            self.bytes.1
        );
        met
    }
}

fn memory(decoder: &Decoder, payload: &Bytes) -> u64 {
    count(|| decoder.decode(payload).is_ok()).1
}

/// Runs both suites; says whether every input kept within its bounds.
pub fn tell(packets: &[Bytes]) -> bool {
    let mut by_hand = Worst::default();
    for hostile in hostile::all() {
        // Each with a decoder of its own, since a refused schema is remembered, and its memory on a thread of its own, whose
        // buffers are empty.
        let (decoder, payload) = (Decoder::bundled(), Bytes::from(hostile.bytes));
        let fresh = std::thread::scope(|scope| scope.spawn(|| memory(&Decoder::bundled(), &payload)).join());
        by_hand.try_one(&decoder, hostile.name, &payload, fresh.expect("no panic"));
    }
    let mut mutated = Worst::default();
    let (decoder, mut dice) = (Decoder::bundled(), Dice::new(11));
    for n in 0..MUTATIONS {
        let mut bytes = packets[n % packets.len()].to_vec();
        (0..=dice.below(3)).for_each(|_| generate::mutate(&mut bytes, &mut dice));
        let payload = Bytes::from(bytes);
        let held = memory(&decoder, &payload);
        mutated.try_one(&decoder, &format!("mutation {n}"), &payload, held);
    }
    println!();
    let kept = by_hand.tell("hostile packets");
    mutated.tell("mutations of whole packets") && kept && by_hand.accepted == 0
}
