//! SIGINT and SIGTERM: the first asks to end, the second ends at once with exit code 130.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::error::{CliError, CliResult, Exit};
use super::output;

/// Watches the signals as long as it lives.
pub(super) struct Signals {
    first: CancellationToken,
    _watch: AbortOnDropHandle<()>,
}

impl Signals {
    /// Begins to watch.
    pub(super) fn watch() -> CliResult<Self> {
        let listen = |kind| signal(kind).map_err(|e| CliError::failed("internal", format!("no signal handler: {e}")));
        let (interrupt, terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        let first = CancellationToken::new();
        let watch = AbortOnDropHandle::new(tokio::spawn(follow(interrupt, terminate, first.clone())));
        Ok(Self { first, _watch: watch })
    }

    /// Gives what is cancelled by the first signal.
    pub(super) fn first(&self) -> CancellationToken {
        self.first.clone()
    }
}

async fn follow(mut interrupt: Signal, mut terminate: Signal, first: CancellationToken) {
    let next = async || {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    let mut next = next;
    next().await;
    output::say("ending: finishing what is begun (a second signal ends at once)");
    first.cancel();
    next().await;
    std::process::exit(i32::from(Exit::SecondSignal.code()));
}
