//! The fuzz targets and the generator of packets; see `targets` for what is promised.

pub mod any;
pub mod generate;
pub mod hostile;
pub mod targets;
