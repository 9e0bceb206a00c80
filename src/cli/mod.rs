//! The command line: one file per command. Hidden from the documentation; `main` and the tests use it.

pub mod embedded;
