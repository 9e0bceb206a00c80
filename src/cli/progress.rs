//! Progress on a terminal; nothing where nobody watches.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::output;

/// How often a bar is drawn again when nothing happens, so that its rate stays true.
const REDRAW: Duration = Duration::from_millis(250);

/// One progress bar on stderr; gone when dropped.
pub(super) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Counts without a known end.
    pub(super) fn counting(what: &'static str, unit: &str) -> Self {
        Self::new(
            None,
            what,
            &format!("{{spinner}} {{msg}}: {{human_pos}} {unit}, {{per_sec}}, {{elapsed}}"),
        )
    }

    /// Counts without a known end beside results on stdout: where both are one terminal, it does not show.
    pub(super) fn counting_beside_stdout(what: &'static str, unit: &str) -> Self {
        let progress = Self::counting(what, unit);
        if output::is_stdout_watched() {
            progress.bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        progress
    }

    /// Counts towards an end.
    pub(super) fn towards(total: u64, what: &'static str, unit: &str) -> Self {
        let line = format!("{{msg}}: [{{bar:30}}] {{human_pos}}/{{human_len}} {unit}, {{per_sec}}, {{eta}} left");
        Self::new(Some(total), what, &line)
    }

    /// Counts bytes towards an end.
    pub(super) fn of_bytes(total: u64, what: &'static str) -> Self {
        let line = "{msg}: [{bar:30}] {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left";
        Self::new(Some(total), what, line)
    }

    fn new(total: Option<u64>, what: &'static str, line: &str) -> Self {
        let target = if output::is_watched() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(total, target).with_message(what);
        if let Ok(style) = ProgressStyle::with_template(line) {
            bar.set_style(style);
        }
        if output::is_watched() {
            bar.enable_steady_tick(REDRAW);
        }
        Self { bar }
    }

    /// Says that `count` more are done.
    pub(super) fn advance(&self, count: u64) {
        self.bar.inc(count);
    }

    /// Says how many are done by now.
    pub(super) fn reach(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// Says how far it is, and towards what.
    pub(super) fn set(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
