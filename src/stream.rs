//! The stream and its control.
