//! What a call costs: its median time, its allocations, and by how much the memory in use grows at most.

#![allow(unsafe_code, reason = "a counting allocator has no safe form")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Off while times are taken, so that nobody pays for the counting.
static ON: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicU64 = AtomicU64::new(0);
static HELD: AtomicI64 = AtomicI64::new(0);
static MOST: AtomicI64 = AtomicI64::new(0);

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if ON.load(Relaxed) {
            CALLS.fetch_add(1, Relaxed);
            let held = HELD.fetch_add(layout.size() as i64, Relaxed) + layout.size() as i64;
            MOST.fetch_max(held, Relaxed);
        }
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if ON.load(Relaxed) {
            HELD.fetch_sub(layout.size() as i64, Relaxed);
        }
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts one call: its allocations, and the most memory it held, bytes.
pub fn count<T>(run: impl FnOnce() -> T) -> (u64, u64) {
    CALLS.store(0, Relaxed);
    HELD.store(0, Relaxed);
    MOST.store(0, Relaxed);
    ON.store(true, Relaxed);
    let result = run();
    ON.store(false, Relaxed);
    drop(result);
    (CALLS.load(Relaxed), MOST.load(Relaxed).unsigned_abs())
}

/// What one call costs in the steady state.
#[derive(Clone, Copy)]
pub struct Cost {
    /// The median time, s.
    pub seconds: f64,
    /// Its allocations.
    pub allocations: u64,
}

impl Cost {
    /// Measures calls: warm, in many short rounds.
    pub fn of(mut run: impl FnMut()) -> Self {
        let warm = Instant::now();
        let mut calls = 0u32;
        while warm.elapsed() < Duration::from_millis(100) {
            run();
            calls += 1;
        }
        let per_round = (calls / 50).max(1);
        let mut rounds: Vec<f64> = (0..101)
            .map(|_| {
                let start = Instant::now();
                (0..per_round).for_each(|_| run());
                start.elapsed().as_secs_f64() / f64::from(per_round)
            })
            .collect();
        rounds.sort_by(f64::total_cmp);
        Self {
            seconds: rounds[rounds.len() / 2],
            allocations: count(run).0,
        }
    }

    /// Prints it, and gives it back.
    pub fn told(self, name: &str) -> Self {
        println!(
            "{name:46} {:9.3} us {:6} allocations",
            self.seconds * 1e6,
            self.allocations
        );
        self
    }
}
