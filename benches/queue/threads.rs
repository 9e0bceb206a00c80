//! Case 80: four producers and four consumers, beside what a program would use otherwise.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use alertstream::queue::Options;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use super::{Queue, compare, on_cpu, queue, say};

const ITEMS: u64 = 400_000;

/// 80
pub(super) fn threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_time()
        .build();
    runtime.unwrap().block_on(four_to_four());
}

/// Three times: a task gives way after every item, as around a handler, which is what the bound is for; after every 64th;
/// and only where it has to wait. In the latter two the rival is left with 25 ns an item, which is less than reading the
/// clock once takes, and the queue reads it twice.
async fn four_to_four() {
    let processors = std::thread::available_parallelism().unwrap();
    let installed = metrics::set_global_recorder(Atomics).is_ok();
    assert!(installed, "the only recorder");
    for (every, how) in [
        (1, "after every item"),
        (64, "after 64 items"),
        (u64::MAX, "only where it must"),
    ] {
        println!("-- 80: 4 producers, 4 consumers, {processors} processors, 64 keys, a task gives way {how}");
        let bare = best_of("fair queue", || fair(queue(), every)).await;
        let metered = best_of("with metrics", || fair(Options::new().metrics("q", 64).build(), every)).await;
        let deque = best_of("Mutex<VecDeque> + Notify", || deque(every)).await;
        best_of("async-channel", || channel(every)).await;
        best_of("tokio mpsc (receiver behind a mutex)", || tokio_mpsc(every)).await;
        for (clock, bare, metered, deque) in [
            ("wall", bare.wall, metered.wall, deque.wall),
            ("processor", bare.cpu, metered.cpu, deque.cpu),
        ] {
            let ratio = format!("fair queue : Mutex<VecDeque> + Notify, {clock}");
            let costs = format!("with metrics : without, {clock}");
            // The rival's processor time is another one whenever its tasks meet or miss each other: the clock decides.
            if every == 1 && clock == "wall" {
                compare(&ratio, bare, deque, 0.3);
                compare(&costs, metered, bare, 0.8);
            } else {
                println!("{ratio:<58} {:>8.3} (no bound)", bare / deque);
                println!("{costs:<58} {:>8.3} (no bound)", metered / bare);
            }
        }
        if every == 1 {
            beside_the_original(bare.wall);
        }
    }
}

/// The queue that this one is made after, in Python.
fn beside_the_original(rate: f64) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/alpenhorn_queue.py");
    let said = match std::process::Command::new("python3").arg(script).output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Err(error) => format!("skipped: python3: {error}"),
    };
    match said.parse::<f64>() {
        Ok(original) => {
            say("alpenhorn's queue", original);
            compare("fair queue : alpenhorn's", rate, original, 4.0);
        }
        Err(_) => println!("alpenhorn's queue: {said}"),
    }
}

/// Items a second, by the clock and by the processor time of all threads.
#[derive(Clone, Copy, Default)]
struct Rates {
    wall: f64,
    cpu: f64,
}

async fn best_of<F: Future<Output = Rates>>(name: &str, mut run: impl FnMut() -> F) -> Rates {
    let mut best = Rates::default();
    for _ in 0..5 {
        let rates = run().await;
        best = Rates {
            wall: best.wall.max(rates.wall),
            cpu: best.cpu.max(rates.cpu),
        };
    }
    println!(
        "{name:<36} {:>8.3} M items/s, {:>8.3} M items/s of processor time",
        best.wall / 1e6,
        best.cpu / 1e6
    );
    best
}

/// Runs four producers and four consumers to their end.
async fn race<P, C>(producer: impl Fn(u64) -> P, consumer: impl Fn() -> C) -> Rates
where
    P: Future<Output = ()> + Send + 'static,
    C: Future<Output = ()> + Send + 'static,
{
    let (start, start_cpu) = (Instant::now(), all_cpu());
    let consumers: Vec<_> = (0..4).map(|_| tokio::spawn(consumer())).collect();
    let producers: Vec<_> = (0..4).map(|number| tokio::spawn(producer(number))).collect();
    for task in producers.into_iter().chain(consumers) {
        task.await.unwrap();
    }
    let rate = |took: Duration| ITEMS as f64 / took.as_secs_f64();
    Rates {
        wall: rate(start.elapsed()),
        cpu: rate(all_cpu() - start_cpu),
    }
}

/// Processor time of all threads that live.
fn all_cpu() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks.map(|task| on_cpu(task.path().join("schedstat"))).sum()
}

/// Everybody gives way to the others after so many items.
async fn give_way(n: u64, every: u64) {
    if n.is_multiple_of(every) {
        tokio::task::yield_now().await;
    }
}

async fn fair(queue: Queue, every: u64) -> Rates {
    let (q, r) = (queue.clone(), queue);
    race(
        move |number| {
            let queue = q.clone();
            async move {
                for n in 0..ITEMS / 4 {
                    queue.put((n * 4 + number) as u32 % 64, n).await.unwrap();
                    give_way(n, every).await;
                }
            }
        },
        move || {
            let queue = r.clone();
            async move {
                for n in 0..ITEMS / 4 {
                    black_box(queue.get().await.unwrap().complete());
                    give_way(n, every).await;
                }
            }
        },
    )
    .await
}

async fn deque(every: u64) -> Rates {
    let shared = Arc::new((Mutex::new(VecDeque::new()), Notify::new()));
    let (p, c) = (shared.clone(), shared);
    race(
        move |_| {
            let shared = p.clone();
            async move {
                for n in 0..ITEMS / 4 {
                    shared.0.lock().push_back(n);
                    shared.1.notify_one();
                    give_way(n, every).await;
                }
            }
        },
        move || {
            let shared = c.clone();
            async move {
                for n in 0..ITEMS / 4 {
                    loop {
                        let waits = shared.1.notified();
                        if let Some(item) = shared.0.lock().pop_front() {
                            black_box(item);
                            break;
                        }
                        waits.await;
                    }
                    // Whoever took an item passes the permit on, as several puts may have left only one.
                    if !shared.0.lock().is_empty() {
                        shared.1.notify_one();
                    }
                    give_way(n, every).await;
                }
            }
        },
    )
    .await
}

async fn channel(every: u64) -> Rates {
    let (tx, rx) = async_channel::unbounded();
    race(
        move |_| {
            let tx = tx.clone();
            async move {
                for n in 0..ITEMS / 4 {
                    tx.send(n).await.unwrap();
                    give_way(n, every).await;
                }
            }
        },
        move || {
            let rx = rx.clone();
            async move {
                for n in 0..ITEMS / 4 {
                    black_box(rx.recv().await.unwrap());
                    give_way(n, every).await;
                }
            }
        },
    )
    .await
}

async fn tokio_mpsc(every: u64) -> Rates {
    let (tx, rx) = mpsc::unbounded_channel();
    let rx = Arc::new(tokio::sync::Mutex::new(rx));
    race(
        move |_| {
            let tx = tx.clone();
            async move {
                for n in 0..ITEMS / 4 {
                    tx.send(n).unwrap();
                    give_way(n, every).await;
                }
            }
        },
        move || {
            let rx = rx.clone();
            async move {
                for n in 0..ITEMS / 4 {
                    black_box(rx.lock().await.recv().await.unwrap());
                    give_way(n, every).await;
                }
            }
        },
    )
    .await
}

/// A recorder as cheap as one that keeps its values can be: one atomic for each series.
struct Atomics;

#[derive(Default)]
struct Last(AtomicU64);

impl metrics::HistogramFn for Last {
    fn record(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }
}

impl metrics::Recorder for Atomics {
    fn describe_counter(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}
    fn describe_gauge(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}
    fn describe_histogram(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}
    fn register_counter(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        metrics::Counter::from_arc(Arc::new(AtomicU64::new(0)))
    }
    fn register_gauge(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        metrics::Gauge::from_arc(Arc::new(AtomicU64::new(0)))
    }
    fn register_histogram(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Histogram {
        metrics::Histogram::from_arc(Arc::new(Last::default()))
    }
}
