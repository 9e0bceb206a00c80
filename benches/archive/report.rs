//! The table that a run ends with, and the medians in it.

use std::time::{Duration, Instant};

/// The lines of a run.
#[derive(Default)]
pub(crate) struct Report(Vec<[String; 4]>);

impl Report {
    /// Adds a figure that stands alone.
    pub(crate) fn figure(&mut self, what: impl Into<String>, value: impl Into<String>) {
        self.line([what.into(), value.into(), String::new(), String::new()]);
    }

    /// Adds a rate beside another way's rate of the same job, and their ratio.
    pub(crate) fn beside(&mut self, what: impl Into<String>, rate: f64, other: &str, other_rate: f64) {
        let ratio = format!("{:.2}", rate / other_rate);
        self.line([
            what.into(),
            rounded(rate),
            format!("{other}: {}", rounded(other_rate)),
            ratio,
        ]);
    }

    fn line(&mut self, line: [String; 4]) {
        eprintln!("  {:<52} {:>14}  {:<44} {}", line[0], line[1], line[2], line[3]);
        self.0.push(line);
    }

    /// Prints the table.
    pub(crate) fn print(&self) {
        println!("\n| what | measured | beside it | ratio |\n| --- | --- | --- | --- |");
        for [what, value, other, ratio] in &self.0 {
            println!("| {what} | {value} | {other} | {ratio} |");
        }
    }
}

fn rounded(rate: f64) -> String {
    format!("{rate:.0}/s")
}

/// Gives the middle of some durations.
pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Times one piece of work.
pub(crate) async fn timed<T>(work: impl Future<Output = T>) -> (Duration, T) {
    let start = Instant::now();
    let result = work.await;
    (start.elapsed(), result)
}

/// The rate of `count` things in a time.
pub(crate) fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}
