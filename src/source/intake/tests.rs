//! Tests of the intake.
