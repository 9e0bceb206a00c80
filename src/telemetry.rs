//! Names of spans, span fields and metrics, so that they are written once.
