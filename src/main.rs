//! The `alertstream` binary: hands over to the command line.

fn main() {}
