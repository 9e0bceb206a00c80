//! Looks at the whole group and its topics, by a client of its own on a thread of its own.
//!
//! How it works: the coordinator answers the requests of one connection in their order, and the request by which a
//! member joins is answered when every other member has joined too, or was given up: after a kill that is the rest of
//! the session. On the member's own connection every question would wait behind it, and the poll thread with it. So
//! the first look makes a second client, which never joins; the poll thread asks, goes on polling, and finds the
//! answer later.
//!
//! Invariants: one question at a time; the client commits nothing and joins nothing. Must not know what the answers are
//! used for.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::{ClientConfig, ClientContext};

use super::ask::{self, Part};
use super::error::LiveError;
use super::heard;
use super::starts::{self, Commits, StartPlan, Wanted};

/// How often the client's events are thrown away while nothing is asked.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Its troubles with connections are the same as those of the member, which are told.
struct Unheard;

impl ClientContext for Unheard {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        tracing::debug!(target: "librdkafka", facility, ?level, "{text}");
    }

    fn error(&self, _: KafkaError, _: &str) {}
}

impl ConsumerContext for Unheard {}

/// What is asked: how far the group is in these topics (names, or regular expressions that begin with `^`) and these
/// partitions, and where a partition without a commit would be begun.
pub(crate) struct Question {
    pub(crate) topics: Vec<String>,
    pub(crate) parts: Vec<Part>,
    pub(crate) plan: StartPlan,
}

/// What was seen: each partition once.
pub(crate) type Seen = Result<Vec<Wanted>, LiveError>;

/// The thread that looks; started by the first question.
pub(crate) struct Looker {
    config: ClientConfig,
    name: String,
    thread: Option<Running>,
    is_asked: bool,
}

struct Running {
    questions: SyncSender<Question>,
    answers: Receiver<Seen>,
    thread: JoinHandle<()>,
}

impl Looker {
    /// Makes one that will look with this configuration of a consumer of the group.
    pub(crate) fn new(mut config: ClientConfig, name: &str) -> Self {
        config.set("statistics.interval.ms", "0");
        config.remove("group.instance.id");
        Self {
            config,
            name: format!("kafka-{name}-look"),
            thread: None,
            is_asked: false,
        }
    }

    /// Says whether a question is under way.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// Asks, unless a question is under way.
    ///
    /// # Errors
    /// The client or its thread cannot be made.
    pub(crate) fn ask(&mut self, question: Question) -> Result<(), LiveError> {
        if self.is_asked {
            return Ok(());
        }
        let running = match self.thread.take() {
            Some(running) => running,
            None => start(&self.config, &self.name)?,
        };
        self.is_asked = running.questions.try_send(question).is_ok();
        self.thread = Some(running);
        Ok(())
    }

    /// Gives the answer once it is there.
    pub(crate) fn answer(&mut self) -> Option<Seen> {
        let answer = self.thread.as_ref()?.answers.try_recv();
        if !matches!(answer, Err(TryRecvError::Empty)) {
            self.is_asked = false;
        }
        answer.ok()
    }

    /// Ends the thread; one that does not end in time ends by itself when its question is over.
    pub(crate) fn stop(self, within: Duration) {
        let Some(Running { questions, thread, .. }) = self.thread else {
            return;
        };
        drop(questions);
        let until = Instant::now() + within;
        while !thread.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn start(config: &ClientConfig, name: &str) -> Result<Running, LiveError> {
    let consumer: BaseConsumer<Unheard> = config
        .create_with_context(Unheard)
        .map_err(|error| LiveError::call("make the client that looks at the group", &error))?;
    let (questions, asked) = sync_channel(1);
    let (answer, answers) = sync_channel(1);
    let thread = std::thread::Builder::new().name(name.to_owned());
    let thread = thread.spawn(move || serve(&consumer, &asked, &answer));
    let thread = thread.map_err(|error| LiveError::Broken {
        cause: format!("no thread can be started: {error}"),
    })?;
    Ok(Running {
        questions,
        answers,
        thread,
    })
}

fn serve(consumer: &BaseConsumer<Unheard>, asked: &Receiver<Question>, answer: &SyncSender<Seen>) {
    loop {
        match asked.recv_timeout(SWEEP_EVERY) {
            Ok(question) => {
                if answer.send(look(consumer, question)).is_err() {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // Unread, events would pile up.
        while consumer.poll(heard::SERVE).is_some() {}
    }
}

fn look(consumer: &BaseConsumer<Unheard>, question: Question) -> Seen {
    let Question {
        mut topics,
        mut parts,
        plan,
    } = question;
    let expressions: Vec<String> = topics.extract_if(.., |topic| topic.starts_with('^')).collect();
    for expression in expressions {
        topics.extend(ask::matching(consumer, &expression)?);
    }
    parts.extend(ask::partitions(consumer, &topics)?);
    parts.sort();
    parts.dedup();
    starts::wanted(consumer, &parts, &plan, Commits::First)
}
