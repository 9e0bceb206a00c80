//! The decoder against the corpus, against two independent decoders, and against bytes made to break it.

mod any;
mod corpus;
mod differential;
mod registry;
