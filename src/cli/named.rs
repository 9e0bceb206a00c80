//! Dead letters told to a person: each is named on stderr, with its reason, once it is kept.

use std::collections::HashSet;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::output;
use crate::archive::dead_letters::DeadLetters;
use crate::dead_letter::{DeadLetter, DeadLetterStore};
use crate::error::BoxError;
use crate::record::Position;

/// Positions remembered, so that what is stored again (a commit is repeated) is not told again.
const TOLD_MAX: usize = 10_000;

/// Keeps dead letters in the archive and names each.
pub(super) struct Named {
    letters: DeadLetters,
    told: Mutex<HashSet<Position>>,
}

impl Named {
    pub(super) fn new(letters: DeadLetters) -> Self {
        Self {
            letters,
            told: Mutex::default(),
        }
    }

    fn tell(&self, letters: &[DeadLetter]) {
        let mut told = self.told.lock();
        for DeadLetter { position, why, .. } in letters {
            if told.len() >= TOLD_MAX {
                told.clear();
            }
            if told.insert(position.clone()) {
                output::complain(&format!("refused: {position}: {} ({})\n", why.message, why.reason));
            }
        }
    }
}

impl DeadLetterStore for Named {
    fn store<'a>(&'a self, letters: &'a [DeadLetter]) -> BoxFuture<'a, Result<(), BoxError>> {
        async move {
            self.letters.store(letters).await?;
            self.tell(letters);
            Ok(())
        }
        .boxed()
    }
}
