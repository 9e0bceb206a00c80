//! The fair queue's performance cases (76 to 81), each as a ratio beside its bound, with its rivals in the same run.
//!
//! `cargo bench --bench queue [-- SECTION...]`, half a minute. Every figure is the best of three, in processor time
//! (Linux), so that a busy machine spoils little; only case 80 goes by the clock. Compare within one run. A bound that is
//! not kept is `MISSED`, and then the exit code is 1.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod threads;

use std::collections::VecDeque;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use alertstream::queue::{FairQueue, Options, PutOptions, Ticket};
use parking_lot::Mutex;
use tokio::sync::mpsc;

type Queue = FairQueue<u32, u64>;

fn main() -> ExitCode {
    // `cargo test` runs benchmarks too, without this argument: then there is nothing to measure.
    let args: Vec<String> = std::env::args().skip(1).collect();
    if !args.iter().any(|arg| arg == "--bench") {
        return ExitCode::SUCCESS;
    }
    let sections: [(&str, fn()); 8] = [
        ("memory", memory), // first: later, memory that was given back is used again
        ("single_thread", single_thread),
        ("one_active_key", one_active_key),
        ("far_deferrals", far_deferrals),
        ("newest_first", newest_first),
        ("distinct_keys", distinct_keys),
        ("blocked_getter", blocked_getter),
        ("threads", threads::threads),
    ];
    let names: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    for (name, section) in sections {
        if names.is_empty() || names.iter().any(|wanted| name.contains(*wanted)) {
            section();
        }
    }
    match MISSED.load(Ordering::Relaxed) {
        0 => ExitCode::SUCCESS,
        missed => {
            println!("{missed} bound(s) MISSED");
            ExitCode::FAILURE
        }
    }
}

static MISSED: AtomicUsize = AtomicUsize::new(0);

/// Says whether a bound is kept, and remembers if not.
fn verdict(holds: bool) -> &'static str {
    if !holds {
        MISSED.fetch_add(1, Ordering::Relaxed);
    }
    if holds { "PASS" } else { "MISSED" }
}

fn queue() -> Queue {
    Options::new().idle_keys_max(1 << 20).build()
}

/// Best of three runs, items a second.
fn best(mut run: impl FnMut() -> (u64, Duration)) -> f64 {
    let rate = |(items, took): (u64, Duration)| items as f64 / took.as_secs_f64();
    (0..3).map(|_| rate(run())).fold(0.0, f64::max)
}

/// Processor time of this thread: what others do on a busy machine does not count.
fn cpu() -> Duration {
    on_cpu("/proc/thread-self/schedstat".into())
}

fn on_cpu(schedstat: std::path::PathBuf) -> Duration {
    let text = std::fs::read_to_string(schedstat).unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

fn timed(items: u64, step: impl FnMut(u64)) -> (u64, Duration) {
    let start = cpu();
    (0..items).for_each(step);
    (items, cpu() - start)
}

fn say(case: &str, rate: f64) {
    println!("{case:<58} {:>8.3} M items/s", rate / 1e6);
}

/// `at_least` in million items a second.
fn gate(case: &str, rate: f64, at_least: f64) {
    let holds = verdict(rate / 1e6 >= at_least);
    println!("{case:<58} {:>8.3} M items/s (at least {at_least}) {holds}", rate / 1e6);
}

fn compare(case: &str, rate: f64, rival: f64, at_least: f64) {
    let holds = verdict(rate / rival >= at_least);
    println!("{case:<58} {:>8.3} (at least {at_least}) {holds}", rate / rival);
}

fn full(keys: u32, items: u64) -> Queue {
    let queue = queue();
    for n in 0..items {
        queue.try_put(n as u32 % keys, n).unwrap();
    }
    queue
}

/// 76
fn single_thread() {
    println!("-- 76: one thread, put + get + done, 1,000,000 queued");
    for (keys, at_least) in [(4, 1.0), (64, 1.0), (1_024, 1.0), (16_384, 0.4)] {
        let queue = full(keys, 1_000_000);
        let cycle = |n: u64| {
            queue.try_put((n as u32).wrapping_mul(2_654_435_761) % keys, n).unwrap();
            black_box(queue.try_get().unwrap().complete());
        };
        gate(
            &format!("fair queue, {keys} keys"),
            best(|| timed(1_000_000, cycle)),
            at_least,
        );
    }
    let deque = Mutex::new(VecDeque::from_iter(0..1_000_000_u64));
    let cycle = |n| {
        deque.lock().push_back(n);
        black_box(deque.lock().pop_front());
    };
    say("Mutex<VecDeque>", best(|| timed(1_000_000, cycle)));
    let (tx, rx) = async_channel::unbounded();
    (0..1_000_000).for_each(|n| tx.try_send(n).unwrap());
    let cycle = |n| {
        tx.try_send(n).unwrap();
        black_box(rx.try_recv().unwrap());
    };
    say("async-channel", best(|| timed(1_000_000, cycle)));
    let (tx, mut rx) = mpsc::unbounded_channel();
    (0..1_000_000).for_each(|n| tx.send(n).unwrap());
    let mut cycle = |n| {
        tx.send(n).unwrap();
        black_box(rx.try_recv().unwrap());
    };
    say("tokio mpsc", best(|| timed(1_000_000, &mut cycle)));
}

/// 77
fn one_active_key() {
    println!("-- 77: one active key among known ones");
    let rate = |known: u32| {
        let queue = queue();
        for key in 0..known {
            queue.try_put(key, 0).unwrap();
            queue.try_get().unwrap().task_done();
        }
        best(|| {
            timed(500_000, |n| {
                queue.try_put(0, n).unwrap();
                black_box(queue.try_get().unwrap().complete());
            })
        })
    };
    let (one, many) = (rate(1), rate(16_384));
    say("1 known key", one);
    say("16,384 known keys", many);
    compare("16,384 : 1", many, one, 0.5);
}

/// 78
fn far_deferrals() {
    println!("-- 78: get + done beside far deferrals");
    let rate = |deferrals: u64| {
        best(|| {
            let queue = full(64, 500_000);
            for n in 0..deferrals {
                let later = PutOptions::new().after(Duration::from_secs(3600 + n % 1000));
                queue.try_put_with(n as u32 % 64, n, later).unwrap();
            }
            timed(500_000, |_| {
                black_box(queue.try_get().unwrap().complete());
            })
        })
    };
    let (none, many) = (rate(0), rate(100_000));
    say("no deferrals", none);
    say("100,000 deferrals", many);
    compare("100,000 : 0", many, none, 0.8);
}

/// 79
fn newest_first() {
    println!("-- 79: many keys in progress, done newest first");
    let rate = |keys: u32| {
        best(|| {
            let queues: Vec<Queue> = (0..262_144 / keys).map(|_| full(keys, u64::from(keys))).collect();
            let mut tickets: Vec<Ticket<u32, u64>> = queues
                .iter()
                .flat_map(|queue| (0..keys).map(|_| queue.try_get().unwrap()))
                .collect();
            let start = cpu();
            while let Some(ticket) = tickets.pop() {
                ticket.task_done();
            }
            (262_144, cpu() - start)
        })
    };
    let (few, many) = (rate(64), rate(16_384));
    say("64 keys", few);
    say("16,384 keys", many);
    compare("16,384 : 64", many, few, 0.3);
}

/// `key = "object"` with limit 1: each item makes its key known, and each key is forgotten again.
fn distinct_keys() {
    println!("-- 1,000,000 distinct keys with limit 1");
    let queue = || -> Queue { Options::new().key_limit(NonZeroU32::MIN).build() };
    let at_once = best(|| {
        let (queue, start) = (queue(), cpu());
        (0..1_000_000).for_each(|key| queue.try_put(key, 0).unwrap());
        while let Some(ticket) = queue.try_get() {
            ticket.task_done();
        }
        (1_000_000, cpu() - start)
    });
    gate("put + get + done, all queued at once", at_once, 0.3);
    // As many alerts wait as a byte budget admits.
    let in_turn = best(|| {
        let queue = queue();
        (0..2_000).for_each(|key| queue.try_put(key, 0).unwrap());
        timed(1_000_000, |n| {
            queue.try_put(2_000 + n as u32, 0).unwrap();
            black_box(queue.try_get().unwrap().complete());
        })
    });
    gate("put + get + done, 2,000 queued", in_turn, 0.4);
    // The queue that `[queue]` makes: names of objects as keys, metrics on.
    let names: Vec<Arc<str>> = (0..1_002_000).map(|n| format!("ZTF18{n:07}").into()).collect();
    let named = best(|| {
        let options = Options::new().key_limit(NonZeroU32::MIN).metrics("alerts", 64);
        let queue: FairQueue<Arc<str>, u64> = options.build();
        let put = |n: usize| queue.try_put(names[n].clone(), 0).unwrap();
        (0..2_000).for_each(put);
        timed(1_000_000, |n| {
            put(2_000 + n as usize);
            black_box(queue.try_get().unwrap().complete());
        })
    });
    gate("put + get + done, 2,000 queued, names and metrics", named, 0.3);
}

/// 29: what a call takes, in real time, while a getter waits for a locked key.
fn blocked_getter() {
    println!("-- 29: put to another key, stats and done while a getter waits for a key with an exclusive item");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
    let longest = runtime.unwrap().block_on(async {
        let mut longest = Duration::ZERO;
        for _ in 0..200 {
            let queue = queue();
            queue.try_put_with(0, 0, PutOptions::new().exclusive()).unwrap();
            let exclusive = queue.try_get().unwrap();
            queue.try_put(0, 1).unwrap();
            let getter = tokio::spawn({
                let queue = queue.clone();
                async move { queue.get().await.map(|ticket| *ticket.key()) }
            });
            tokio::task::yield_now().await;
            let mut clock = |call: &mut dyn FnMut()| {
                let start = Instant::now();
                call();
                longest = longest.max(start.elapsed());
            };
            clock(&mut || queue.try_put(7, 7).unwrap());
            clock(&mut || _ = black_box(queue.stats()));
            assert_eq!(getter.await.unwrap(), Ok(7), "the other key's item");
            let mut exclusive = Some(exclusive);
            clock(&mut || drop(exclusive.take()));
        }
        longest
    });
    let millis = longest.as_secs_f64() * 1e3;
    println!(
        "{:<58} {millis:>8.3} ms (below 5) {}",
        "longest call of 600",
        verdict(millis < 5.0)
    );
}

/// 81
fn memory() {
    println!("-- 81: memory of 1,000,000 items of 16 bytes over 64 keys");
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        statm
            .split(' ')
            .nth(1)
            .and_then(|pages| pages.parse::<i64>().ok())
            .unwrap_or(0)
            * 4096
    };
    let before = resident();
    let queue: FairQueue<u32, (u64, u64)> = FairQueue::new();
    for n in 0..1_000_000 {
        queue.try_put(n as u32 % 64, (n, n)).unwrap();
    }
    let overhead = (resident() - before) / 1_000_000 - 16;
    let holds = verdict(overhead <= 64);
    println!("{:<58} {overhead:>8} bytes an item (at most 64) {holds}", "overhead");
    drop(queue);
}
