//! Replays the trace generator of the fair queue's specification and prints the digest of what was served.
//!
//! `fair_queue_trace --seed N --keys K --steps N [--exclusive-every X] [--clear] [--cap C]` prints 16 hex digits, and on
//! the next line `queued in_progress`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::time::Duration;

use alertstream::queue::{FairQueue, Options, PutOptions, Ticket};
use clap::Parser;

#[derive(Parser)]
pub(crate) struct Args {
    #[arg(long)]
    pub(crate) seed: u64,
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) keys: u64,
    #[arg(long)]
    pub(crate) steps: u64,
    /// Every X-th put is exclusive.
    #[arg(long, default_value_t = 0)]
    pub(crate) exclusive_every: u64,
    /// Some steps clear a key.
    #[arg(long)]
    pub(crate) clear: bool,
    /// Most items in progress.
    #[arg(long)]
    pub(crate) cap: Option<usize>,
}

fn main() {
    let args = Args::parse();
    let queue = options(&args).build();
    let (words, _tickets) = trace(&args, &queue);
    println!("{}", told(&words, &queue));
}

/// A queue that forgets no key.
pub(crate) fn options(args: &Args) -> Options<u64> {
    let keys = usize::try_from(args.keys).unwrap_or(usize::MAX);
    Options::new().idle_keys_max(keys).idle_grace(Duration::MAX)
}

/// The two lines that are printed.
pub(crate) fn told(words: &[String], queue: &FairQueue<u64, u64>) -> String {
    let digest = words.join(" ").bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3) // FNV-1a, 64 bits
    });
    format!("{digest:016x}\n{} {}", queue.qsize(), queue.inprogress_size())
}

/// What the trace emits, and the tickets at its end.
pub(crate) fn trace(args: &Args, queue: &FairQueue<u64, u64>) -> (Vec<String>, Vec<Ticket<u64, u64>>) {
    let (mut x, mut n, mut tickets, mut words) = (args.seed, 0, Vec::new(), Vec::new());
    for _ in 0..args.steps {
        x = x
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let (op, a) = ((x >> 33) % 10, (x >> 33) / 10);
        let clears = args.clear && a.is_multiple_of(97);
        match op {
            0..=4 => {
                let exclusive = args.exclusive_every != 0 && (a / args.keys).is_multiple_of(args.exclusive_every);
                let how = if exclusive {
                    PutOptions::new().exclusive()
                } else {
                    PutOptions::new()
                };
                queue
                    .try_put_with(a % args.keys, n, how)
                    .expect("an unbounded queue accepts");
                n += 1;
            }
            5..=7 if args.cap.is_some_and(|cap| tickets.len() >= cap) => words.push("#".to_owned()),
            5..=7 => match queue.try_get() {
                Some(ticket) => {
                    words.push(format!("{}:{}", ticket.key(), *ticket));
                    tickets.push(ticket);
                }
                None => words.push("-".to_owned()),
            },
            _ if clears => words.push(format!("c{}", queue.clear(&(a / 97 % args.keys)).0)),
            _ if !tickets.is_empty() => tickets.remove((a % tickets.len() as u64) as usize).task_done(),
            _ => {}
        }
    }
    (words, tickets)
}
