//! An allocator that counts what each thread holds, for tests that bound memory.

#![allow(unsafe_code, reason = "a counting allocator has no safe form")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

/// Counts what each thread asks for and gives back.
pub struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; the counter is a plain cell of the thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(-(layout.size() as isize));
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn note(bytes: isize) {
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
}

/// Bytes that this thread allocated and did not free.
pub fn held() -> isize {
    HELD.with(Cell::get)
}
