//! The tables that a run ends with: figures beside their bounds, and the gates.

use std::time::{Duration, Instant};

/// The lines of a run.
#[derive(Default)]
pub(crate) struct Report {
    lines: Vec<[String; 4]>,
    gates: Vec<Gate>,
}

struct Gate {
    what: String,
    measured: String,
    wanted: String,
    met: bool,
}

impl Report {
    /// Adds a figure that stands alone.
    pub(crate) fn figure(&mut self, what: impl Into<String>, value: impl Into<String>) {
        self.line([what.into(), value.into(), String::new(), String::new()]);
    }

    /// Adds a rate beside another way's rate of the same job; gives their ratio.
    pub(crate) fn beside(&mut self, what: impl Into<String>, rate: f64, other: &str, other_rate: f64) -> f64 {
        let ratio = rate / other_rate;
        self.line([
            what.into(),
            rounded(rate),
            format!("{other}: {}", rounded(other_rate)),
            format!("{ratio:.2}"),
        ]);
        ratio
    }

    /// Adds a gate: what was wanted and whether it was met.
    pub(crate) fn gate(
        &mut self,
        what: impl Into<String>,
        measured: impl Into<String>,
        wanted: impl Into<String>,
        met: bool,
    ) {
        let gate = Gate {
            what: what.into(),
            measured: measured.into(),
            wanted: wanted.into(),
            met,
        };
        eprintln!(
            "  gate: {}: {}, wanted {}: {}",
            gate.what,
            gate.measured,
            gate.wanted,
            gate.verdict()
        );
        self.gates.push(gate);
    }

    fn line(&mut self, line: [String; 4]) {
        eprintln!("  {:<56} {:>14}  {:<48} {}", line[0], line[1], line[2], line[3]);
        self.lines.push(line);
    }

    /// Prints the tables; tells whether every gate was met.
    pub(crate) fn print(&self) -> bool {
        println!("\n| what | measured | beside it | ratio |\n| --- | --- | --- | --- |");
        for [what, value, other, ratio] in &self.lines {
            println!("| {what} | {value} | {other} | {ratio} |");
        }
        println!("\n| gate | measured | wanted | |\n| --- | --- | --- | --- |");
        for gate in &self.gates {
            println!(
                "| {} | {} | {} | {} |",
                gate.what,
                gate.measured,
                gate.wanted,
                gate.verdict()
            );
        }
        let missed = self.gates.iter().filter(|gate| !gate.met).count();
        println!("\n{} gates, {missed} missed", self.gates.len());
        missed == 0
    }
}

impl Gate {
    fn verdict(&self) -> &'static str {
        if self.met { "met" } else { "MISSED" }
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
