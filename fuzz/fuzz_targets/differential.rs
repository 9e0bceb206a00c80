//! libFuzzer's entry to the target `differential`.
#![no_main]

use std::sync::LazyLock;

use alertstream::decode::Decoder;

static DECODER: LazyLock<Decoder> = LazyLock::new(Decoder::bundled);

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    alertstream_fuzz::targets::run("differential", &DECODER, input);
});
