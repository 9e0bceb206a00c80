//! An allocator that counts what each thread holds and asks for, for tests that bound memory.

// Each test binary uses its own part of this file.
#![allow(dead_code, unsafe_code, reason = "a counting allocator has no safe form")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

/// Counts what each thread asks for and gives back.
pub struct Counting;

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

/// Allocations of this thread so far.
pub fn calls() -> usize {
    COUNT.with(Cell::get)
}

/// Bytes that this thread allocated and did not free.
pub fn held() -> isize {
    HELD.with(Cell::get)
}

/// Runs something; gives by how much the memory held by this thread grew at most, bytes.
pub fn largest_growth<T>(run: impl FnOnce() -> T) -> (usize, T) {
    let before = held();
    MOST.with(|most| most.set(before));
    let result = run();
    (MOST.with(Cell::get).saturating_sub(before).max(0) as usize, result)
}
