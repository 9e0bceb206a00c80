//! Tests of the stream and its control on the memory source.
