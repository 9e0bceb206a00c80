//! The checks of a live source, in the order in which things go wrong: settings, addresses, brokers, topics, group, alert.
//!
//! Invariant: the first thing that is wrong ends the list, since what follows would only repeat it; a night whose topic
//! is not there is not wrong. Must not know of the other sources.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use chrono::Utc;
use tokio::runtime::Handle;

use super::Check;
use crate::decode::{DecodeError, Decoder};
use crate::source::kafka::client::Clients;
use crate::source::kafka::config::LiveConfig;
use crate::source::kafka::nights::NightStart;
use crate::source::kafka::probe::Probe;
use crate::source::kafka::topics::{Found, Topics};
use crate::units::counted;

/// How long an address may take to accept a connection.
const ACCEPT_WITHIN: Duration = Duration::from_secs(5);
/// How long a broker may take to answer.
const BROKER_WITHIN: Duration = Duration::from_secs(10);
/// How long a message may take to come.
const MESSAGE_WITHIN: Duration = Duration::from_secs(5);

/// How long a schema registry may take to give the alert's schema.
const SCHEMA_WITHIN: Duration = Duration::from_secs(10);

/// What is checked.
pub(super) struct Live {
    pub(super) name: String,
    pub(super) group: String,
    pub(super) config: LiveConfig,
    pub(super) nights: NightStart,
    pub(super) decoder: Decoder,
}

impl Live {
    /// Makes the checks; blocks, off the async threads of a runtime.
    pub(super) fn checks(&self) -> Vec<Check> {
        let mut checks = Vec::new();
        if let Err(failed) = self.examine(&mut checks) {
            checks.push(failed);
        }
        checks
    }

    fn examine(&self, checks: &mut Vec<Check>) -> Result<(), Check> {
        let failed = |what: &str, error: String| Check::of(self.title(what), Err::<String, _>(error));
        let mut passed = |what: &str, detail: String| checks.push(Check::of(self.title(what), Ok::<_, String>(detail)));
        let clients = self.config.clients().map_err(|e| failed("settings", e.to_string()))?;
        passed("addresses", addresses(&clients).map_err(|e| failed("addresses", e))?);
        let probe = Probe::connect(&clients, &self.group, BROKER_WITHIN);
        let probe = probe.map_err(|e| failed("brokers", e.to_string()))?;
        let user = clients.user().map_or("no user".into(), |user| format!("user `{user}`"));
        passed("brokers", format!("answer ({user})"));
        let topics = Topics::of(&self.config, self.nights, Utc::now());
        let found = probe.find(&topics).map_err(|e| failed("topics", e.to_string()))?;
        passed("topics", self.there(&found).map_err(|e| failed("topics", e))?);
        let topics = found.names;
        passed("group", self.usable(&probe, &topics).map_err(|e| failed("group", e))?);
        passed("alert", self.decoded(&probe, &topics).map_err(|e| failed("alert", e))?);
        Ok(())
    }

    fn title(&self, what: &str) -> String {
        format!("source {} {what}", self.name)
    }

    fn there(&self, found: &Found) -> Result<String, String> {
        if !found.missing.is_empty() {
            return Err(format!("there is no topic `{}`", found.missing.join("`, `")));
        }
        if found.names.is_empty() {
            let names = self.config.topics.join("`, `");
            return Ok(format!(
                "none is there now: no night that `{names}` names has a topic (yet, or any more)"
            ));
        }
        let nights = match found.absent_nights {
            0 => String::new(),
            1 => "; 1 nightly one is not there (yet, or any more)".to_owned(),
            absent => format!("; {absent} nightly ones are not there (yet, or any more)"),
        };
        let partitions = counted(found.partitions, "partition");
        Ok(format!("{} with {partitions}{nights}", found.names.len()))
    }

    fn usable(&self, probe: &Probe, topics: &[String]) -> Result<String, String> {
        let group = &self.group;
        if group.is_empty() {
            return Err("no `group` is named".into());
        }
        let committed = probe.commits(topics).map_err(|error| error.to_string())?;
        Ok(format!(
            "`{group}` may be asked, and has commits in {}",
            counted(committed, "partition")
        ))
    }

    fn decoded(&self, probe: &Probe, topics: &[String]) -> Result<String, String> {
        let newest = probe.newest(topics, MESSAGE_WITHIN);
        let Some((place, payload)) = newest.map_err(|error| error.to_string())? else {
            return Ok("none can be read now".into());
        };
        let mut decoded = self.decoder.decode(&payload);
        if let Err(DecodeError::SchemaPending { id }) = decoded {
            let resolving = tokio::time::timeout(SCHEMA_WITHIN, self.decoder.resolve(id));
            // Too late, what was pending is pending still, and is the error below.
            let _ = Handle::current().block_on(resolving);
            decoded = self.decoder.decode(&payload);
        }
        let packet = decoded.map_err(|error| format!("{place}: {error}"))?;
        let header = packet.header();
        Ok(format!("{place} is alert {} of {}", header.alert_id, header.survey))
    }
}

/// Looks every address up and connects to it; one that accepts is enough.
fn addresses(clients: &Clients) -> Result<String, String> {
    let all: Vec<&str> = clients.brokers().split(',').collect();
    let tried = all.iter().map(|address| accepts(address));
    let problems: Vec<String> = tried.filter_map(Result::err).collect();
    let said = format!("{} of {} accept connections", all.len() - problems.len(), all.len());
    match (problems.len() == all.len(), problems.is_empty()) {
        (true, _) => Err(problems.join("; ")),
        (false, true) => Ok(said),
        (false, false) => Ok(format!("{said}; {}", problems.join("; "))),
    }
}

fn accepts(address: &str) -> Result<(), String> {
    let plain = address.split_once("://").map_or(address, |(_, plain)| plain);
    let has_port = plain
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let whole = if has_port {
        plain.to_owned()
    } else {
        format!("{plain}:9092")
    };
    let found = whole.to_socket_addrs();
    let found = found.map_err(|error| format!("the name `{whole}` cannot be looked up: {error}"))?;
    let mut last = format!("the name `{whole}` has no address");
    for socket in found {
        match TcpStream::connect_timeout(&socket, ACCEPT_WITHIN) {
            Ok(_) => return Ok(()),
            Err(error) => last = format!("`{whole}` does not accept a connection: {error}"),
        }
    }
    Err(last)
}
