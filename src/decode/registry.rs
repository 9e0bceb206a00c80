//! Schemas that are not bundled: the disk cache, then the schema registry over HTTP.
//!
//! Invariants: one fetch per id at a time; a failed one is not repeated before its back-off has passed (a registry's "no
//! such schema" counts too: it may be registered later); what was fetched is on disk before it is used, so a restart
//! while the registry is down changes nothing. HTTP runs on a blocking thread, bounded by a timeout. Must not know what
//! a schema is compiled to.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::base64::base64;
use crate::secret::Secret;

const FETCH_WITHIN: Duration = Duration::from_secs(10);
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LAST_RETRY: Duration = Duration::from_secs(30);
const ANSWER_MAX: u64 = 4 << 20;
const WAITING_MAX: usize = 1024;
const LISTED_MAX: usize = 256;

/// `[schemas]`: where writer schemas come from that are not bundled.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SchemasConfig {
    /// The registry's address, e.g. `https://registry.example.org`; without it an unknown id is a dead letter.
    pub registry: Option<String>,
    /// User of the registry, for HTTP basic authentication.
    pub user: Option<Secret>,
    /// Its password.
    pub password: Option<Secret>,
    /// Folder of the disk cache; `$XDG_CACHE_HOME/alertstream/schemas` unless set.
    pub cache: Option<PathBuf>,
}

/// A registry with its disk cache.
pub(crate) struct Registry {
    url: String,
    authorization: Option<String>,
    folder: PathBuf,
    waiting: Mutex<HashMap<u32, Waiting>>,
    changed: Notify,
}

/// What is known of an id that is not there.
#[derive(Clone, Copy)]
enum Waiting {
    /// A fetch is under way.
    Fetching { failures: u32 },
    /// The next fetch is not before this time.
    Until { at: Instant, failures: u32 },
}

/// What to do for an id that is not there.
pub(crate) enum Next {
    /// Fetch it: the caller has the turn.
    Fetch,
    /// Another caller fetches it.
    Wait,
    /// Ask again at this time.
    Sleep(Instant),
}

/// Why a schema could not be fetched.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    /// The registry answers that it has no such schema.
    #[error("the registry has no schema `{id}`")]
    NoSuchSchema { id: u32 },
    /// The registry cannot be reached, or does not answer.
    #[error("the registry at `{url}` failed: {cause}")]
    Unreachable { url: String, cause: String },
    /// The answer is no schema.
    #[error("the registry's answer for schema `{id}` cannot be used: {cause}")]
    Unusable { id: u32, cause: String },
}

impl Registry {
    /// Makes the registry of a configuration; `None` when it names none.
    pub(crate) fn new(config: &SchemasConfig) -> Result<Option<Self>, crate::secret::SecretError> {
        let Some(url) = &config.registry else { return Ok(None) };
        let user = config.user.as_ref().map(Secret::reveal).transpose()?;
        let password = config
            .password
            .as_ref()
            .map(Secret::reveal)
            .transpose()?
            .unwrap_or_default();
        let authorization = user.map(|user| format!("Basic {}", base64(format!("{user}:{password}").as_bytes())));
        let folder = config.cache.clone().unwrap_or_else(default_folder);
        Ok(Some(Self {
            url: url.trim_end_matches('/').to_owned(),
            authorization,
            folder,
            waiting: Mutex::new(HashMap::new()),
            changed: Notify::new(),
        }))
    }

    /// Reads a schema from the disk cache.
    pub(crate) fn on_disk(&self, id: u32) -> Option<Vec<u8>> {
        std::fs::read(self.path(id)).ok()
    }

    /// Gives the ids of the schemas in the disk cache, at most [`LISTED_MAX`].
    pub(crate) fn ids_on_disk(&self) -> Vec<u32> {
        let key = self.key();
        let id = |name: &str| {
            name.strip_prefix(&key)?
                .strip_prefix('-')?
                .strip_suffix(".json")?
                .parse()
                .ok()
        };
        let files = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let ids = files.filter_map(|file| id(file.file_name().to_str()?));
        ids.take(LISTED_MAX).collect()
    }

    fn path(&self, id: u32) -> PathBuf {
        self.folder.join(format!("{}-{id}.json", self.key()))
    }

    /// The cache is keyed by the registry too: two registries may give one id to two schemas.
    fn key(&self) -> String {
        let digest = Sha256::digest(self.url.as_bytes());
        digest.iter().take(8).map(|b| format!("{b:02x}")).collect()
    }

    /// Takes the turn to fetch an id, or tells how to wait for it.
    pub(crate) fn turn(&self, id: u32, now: Instant) -> Next {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= WAITING_MAX {
            waiting.retain(|_, state| matches!(state, Waiting::Fetching { .. }));
        }
        let failures = match waiting.get(&id) {
            Some(Waiting::Fetching { .. }) => return Next::Wait,
            Some(Waiting::Until { at, .. }) if *at > now => return Next::Sleep(*at),
            Some(Waiting::Until { failures, .. }) => *failures,
            None => 0,
        };
        waiting.insert(id, Waiting::Fetching { failures });
        Next::Fetch
    }

    /// Ends the turn; after a failure the next one begins after the back-off.
    pub(crate) fn done(&self, id: u32, fetched: Result<(), &FetchError>, now: Instant) {
        let mut waiting = self.waiting.lock();
        let before = match waiting.remove(&id) {
            Some(Waiting::Fetching { failures } | Waiting::Until { failures, .. }) => failures,
            None => 0,
        };
        if let Err(error) = fetched {
            let delay = FIRST_RETRY.saturating_mul(1 << before.min(10)).min(LAST_RETRY);
            let jittered = delay.mul_f64(rand::random_range(0.75..1.0));
            waiting.insert(
                id,
                Waiting::Until {
                    at: now + jittered,
                    failures: before + 1,
                },
            );
            tracing::warn!(id, %error, "schema not there yet; its alerts wait");
        }
        drop(waiting);
        self.changed.notify_waiters();
    }

    /// Completes at the next [`Registry::done`].
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Says whether the registry answers what it will be asked; that it has no schema 1 is an answer. Blocks for at
    /// most 10 s.
    pub(crate) fn check(&self) -> Result<&str, FetchError> {
        match self.ask(1) {
            Ok(_) | Err(FetchError::NoSuchSchema { .. }) => Ok(&self.url),
            Err(error) => Err(error),
        }
    }

    /// Fetches a schema and keeps it on disk. Blocks for at most 10 s.
    pub(crate) fn fetch(&self, id: u32) -> Result<Vec<u8>, FetchError> {
        let answer = self.ask(id)?;
        if answer.kind.as_deref().is_some_and(|kind| kind != "AVRO") {
            return Err(FetchError::Unusable {
                id,
                cause: "it is no Avro schema".into(),
            });
        }
        let text = answer.schema.into_bytes();
        check_name(id, &text).map_err(|cause| FetchError::Unusable { id, cause })?;
        if let Err(cause) = self.keep(id, &text) {
            tracing::warn!(id, %cause, folder = %self.folder.display(), "schema not kept on disk; a restart fetches it again");
        }
        Ok(text)
    }

    fn ask(&self, id: u32) -> Result<Answer, FetchError> {
        let url = format!("{}/schemas/ids/{id}", self.url);
        let failed = |cause: ureq::Error| match cause {
            ureq::Error::StatusCode(404) => FetchError::NoSuchSchema { id },
            cause => FetchError::Unreachable {
                url: self.url.clone(),
                cause: cause.to_string(),
            },
        };
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(FETCH_WITHIN))
            .build()
            .new_agent();
        let mut request = agent.get(&url);
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let mut response = request.call().map_err(failed)?;
        let body = response.body_mut().with_config().limit(ANSWER_MAX);
        body.read_json().map_err(failed)
    }

    /// Writes beside and renames, so that a reader never sees half a schema.
    fn keep(&self, id: u32, text: &[u8]) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        let path = self.path(id);
        let beside = path.with_extension(format!("{}.new", uuid::Uuid::new_v4()));
        std::fs::write(&beside, text)?;
        std::fs::rename(&beside, &path)
    }
}

#[derive(Deserialize)]
struct Answer {
    schema: String,
    #[serde(rename = "schemaType")]
    kind: Option<String>,
}

/// Checks an id against the record's name, where the name has a version: `lsst.v9_0.alert` is 900 and nothing else.
fn check_name(id: u32, text: &[u8]) -> Result<(), String> {
    let schema = super::schema::Schema::parse(text).map_err(|error| error.to_string())?;
    let version = super::bind::version_in_name(&schema.name).filter(|_| schema.name.starts_with("lsst."));
    let expected = version.as_deref().and_then(|v| {
        let (major, minor) = v.split_once('.')?;
        Some(major.parse::<u32>().ok()? * 100 + minor.parse::<u32>().ok()?)
    });
    match expected {
        Some(expected) if expected != id => Err(format!("its record is `{}`, whose id is {expected}", schema.name)),
        _ => Ok(()),
    }
}

fn default_folder() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    cache
        .unwrap_or_else(std::env::temp_dir)
        .join("alertstream")
        .join("schemas")
}
