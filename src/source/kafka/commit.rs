//! Commits that do not stop the polling.
//!
//! librdkafka tells nobody what became of an asynchronous commit of the stored offsets unless a callback is set, which
//! rdkafka 0.39 never does. So a second thread commits synchronously, one request at a time, and the poll thread goes
//! on polling; a coordinator that is away blocks this thread only.
//!
//! Invariant: what is answered as committed was stored before its request was sent. Must not know of lanes.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::context::Context;
use super::error::LiveError;
use crate::source::intake::Commit;

/// The committing thread and what it owes an answer for.
pub(crate) struct Committer {
    requests: Option<SyncSender<()>>,
    answers: Receiver<Result<(), KafkaError>>,
    thread: JoinHandle<()>,
    /// What the running request covers.
    running: Option<Vec<Commit>>,
    /// What was stored since; the next request covers it.
    waiting: Vec<Commit>,
}

impl Committer {
    /// Starts the thread.
    pub(crate) fn start(consumer: Arc<BaseConsumer<Context>>, name: &str) -> Result<Self, LiveError> {
        let (requests, asked) = sync_channel::<()>(1);
        let (answer, answers) = sync_channel(1);
        let thread = std::thread::Builder::new().name(format!("kafka-{name}-commit"));
        let thread = thread.spawn(move || {
            while asked.recv().is_ok() {
                let done = match consumer.commit_consumer_state(CommitMode::Sync) {
                    Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => Ok(()), // nothing new: all committed
                    other => other,
                };
                if answer.send(done).is_err() {
                    return;
                }
            }
        });
        let thread = thread.map_err(|error| LiveError::Broken {
            cause: format!("no thread can be started: {error}"),
        })?;
        Ok(Self {
            requests: Some(requests),
            answers,
            thread,
            running: None,
            waiting: Vec::new(),
        })
    }

    /// Takes commits whose offsets are stored.
    pub(crate) fn push(&mut self, commits: Vec<Commit>) {
        // A later commit of an epoch covers every earlier one.
        for commit in commits {
            self.waiting
                .retain(|old| old.lane != commit.lane || old.epoch != commit.epoch);
            self.waiting.push(commit);
        }
        self.send();
    }

    /// Gives the answer of the running request, once it is there, with the commits that it covered.
    pub(crate) fn answer(&mut self) -> Option<(Vec<Commit>, Result<(), KafkaError>)> {
        match self.answers.try_recv() {
            Ok(done) => {
                let covered = self.running.take().unwrap_or_default();
                self.send();
                Some((covered, done))
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }

    /// Says whether nothing is running or waiting.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_none() && self.waiting.is_empty()
    }

    /// Ends the thread; false when it did not end in time: it still holds the consumer.
    pub(crate) fn stop(mut self, within: Duration) -> bool {
        self.requests = None;
        let until = Instant::now() + within;
        while !self.thread.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.thread.is_finished() && self.thread.join().is_ok()
    }

    fn send(&mut self) {
        if self.running.is_some() || self.waiting.is_empty() {
            return;
        }
        let Some(requests) = &self.requests else { return };
        match requests.try_send(()) {
            Ok(()) => self.running = Some(std::mem::take(&mut self.waiting)),
            Err(TrySendError::Full(()) | TrySendError::Disconnected(())) => {}
        }
    }
}
