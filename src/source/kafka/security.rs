//! What the settings of SASL and TLS say together, and what a connection that fails says of them.
//!
//! Pure. librdkafka itself takes settings that can do nothing, and tells of a port that speaks another protocol only in
//! words of its log. Must not know clients.

use std::collections::BTreeMap;

use super::error::LiveError;

/// What `security.protocol` asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Security {
    sasl: bool,
    tls: bool,
}

/// Words of librdkafka for a connection that was accepted and closed again.
const CLOSED: [&str; 4] = ["closed by peer", "Broken pipe", "Connection reset", "Disconnected"];

const WANTS_SASL_OR_TLS: &str = "the port takes a connection and closes it at the first request: where it wants SASL or TLS, set \
    `security.protocol` (SASL_SSL, SASL_PLAINTEXT or SSL) and the `sasl.` settings, in [source.NAME.live.librdkafka] or with `-X`";
const WANTS_TLS: &str = "the port takes a connection and closes it at the first request: where it wants TLS, set \
    `security.protocol` to SASL_SSL";
const WANTS_SASL: &str = "the port takes a connection and closes it at the first request: where it wants SASL, set \
    `security.protocol` to SASL_SSL and the `sasl.` settings";
const IS_IT_THERE: &str = "check the addresses and that the broker runs";

const MECHANISMS: [&str; 4] = ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER"];

impl Security {
    /// Reads the value of `security.protocol`.
    pub(crate) fn of(protocol: Option<&str>) -> Self {
        let protocol = protocol.unwrap_or("plaintext").to_ascii_lowercase();
        Self {
            sasl: protocol.starts_with("sasl_"),
            tls: protocol.ends_with("ssl"),
        }
    }

    /// Says what to do about brokers that do not answer, by what the last connection failed with.
    pub(crate) fn advice(self, cause: &str) -> &'static str {
        if !CLOSED.iter().any(|word| cause.contains(word)) {
            return IS_IT_THERE;
        }
        match (self.sasl, self.tls) {
            (false, false) => WANTS_SASL_OR_TLS,
            (true, false) => WANTS_TLS,
            (false, true) => WANTS_SASL,
            (true, true) => IS_IT_THERE,
        }
    }
}

/// Gives the error for a port that does not speak what the settings ask for, if that is what the words say.
pub(crate) fn not_spoken(cause: &str) -> Option<LiveError> {
    let not = |what, instead| {
        let cause = cause.to_owned();
        Some(LiveError::NotSpoken { what, cause, instead })
    };
    if cause.contains("SSL connection closed by peer") {
        return not("TLS", "PLAINTEXT or SASL_PLAINTEXT");
    }
    // A broker without SASL on this port has no mechanism to name.
    if cause.contains("not valid in current SASL state") || cause.ends_with("supported mechanisms:") {
        return not("SASL", "PLAINTEXT or SSL");
    }
    None
}

/// Cuts librdkafka's frame off: its thread before the words, its times behind them.
pub(crate) fn bare(text: &str) -> &str {
    let text = match text.strip_prefix("[thrd:").and_then(|rest| rest.split_once("]: ")) {
        Some((_, text)) => text,
        None => text,
    };
    text.rsplit_once(" (after ").map_or(text, |(text, _)| text).trim_end()
}

/// Gives what cannot work together in a table of settings; `value` gives a setting's value, where it is known.
pub(crate) fn conflicts(settings: &BTreeMap<String, String>, value: impl Fn(&str) -> Option<String>) -> Vec<LiveError> {
    let refused = |key: &str, reason| LiveError::Refused {
        key: key.to_owned(),
        reason,
    };
    let protocol = value("security.protocol");
    if settings.contains_key("security.protocol") && protocol.is_none() {
        return Vec::new();
    }
    let Security { sasl, tls } = Security::of(protocol.as_deref());
    let idle = |prefix: &str| settings.keys().find(|key| key.starts_with(prefix));
    let mut found = Vec::new();
    if let (false, Some(key)) = (sasl, idle("sasl.")) {
        found.push(refused(
            key,
            "it does nothing unless `security.protocol` is SASL_SSL or SASL_PLAINTEXT",
        ));
    }
    if let (false, Some(key)) = (tls, idle("ssl.")) {
        found.push(refused(
            key,
            "it does nothing unless `security.protocol` is SSL or SASL_SSL",
        ));
    }
    if !sasl {
        return found;
    }
    let spelling = ["sasl.mechanism", "sasl.mechanisms"];
    let Some(key) = spelling.into_iter().find(|key| settings.contains_key(*key)) else {
        found.push(refused(
            "security.protocol",
            "SASL needs `sasl.mechanism` too: SCRAM-SHA-512, SCRAM-SHA-256, PLAIN or OAUTHBEARER",
        ));
        return found;
    };
    let Some(mechanism) = value(key) else { return found };
    let has_login = ["sasl.username", "sasl.password"]
        .iter()
        .all(|key| settings.contains_key(*key));
    let needs_login = !mechanism.eq_ignore_ascii_case("OAUTHBEARER");
    if !MECHANISMS.contains(&mechanism.to_ascii_uppercase().as_str()) {
        found.push(refused(
            key,
            "the mechanisms are SCRAM-SHA-512, SCRAM-SHA-256, PLAIN and OAUTHBEARER",
        ));
    } else if needs_login && !has_login {
        found.push(refused(key, "it needs `sasl.username` and `sasl.password` too"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(pairs: &[(&str, &str)]) -> Vec<String> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let settings: BTreeMap<String, String> = pairs.iter().map(owned).collect();
        let found = conflicts(&settings, |key| settings.get(key).cloned());
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn settings_that_can_do_nothing_are_refused() {
        assert!(said(&[("client.id", "x")]).is_empty());
        let login = [("sasl.username", "u"), ("sasl.password", "p")];
        assert!(said(&login)[0].contains("`sasl.password` is refused: it does nothing unless"));
        assert!(said(&[("ssl.ca.location", "f")])[0].contains("`security.protocol` is SSL or SASL_SSL"));
        let sasl = ("security.protocol", "SASL_SSL");
        assert!(said(&[sasl])[0].contains("`sasl.mechanism`"));
        assert!(said(&[sasl, ("sasl.mechanism", "GSSAPI")])[0].contains("SCRAM-SHA-256"));
        assert!(said(&[sasl, ("sasl.mechanism", "PLAIN"), login[0]])[0].contains("`sasl.password`"));
        assert!(said(&[sasl, ("sasl.mechanisms", "PLAIN"), login[0], login[1]]).is_empty());
        assert!(said(&[sasl, ("sasl.mechanism", "OAUTHBEARER")]).is_empty());
    }

    #[test]
    fn a_connection_that_is_closed_at_once_says_what_the_port_may_want() {
        let closed = "b:1/bootstrap: Disconnected: connection closed by peer: receive 0 after POLLIN";
        let advice = |protocol, cause| Security::of(protocol).advice(cause);
        assert!(advice(None, closed).contains("SASL or TLS"));
        assert!(advice(Some("SASL_PLAINTEXT"), closed).contains("wants TLS"));
        assert!(advice(Some("ssl"), closed).contains("wants SASL"));
        assert_eq!(advice(None, "Connect to b:1 failed: Connection refused"), IS_IT_THERE);
    }

    #[test]
    fn the_words_of_the_log_are_cut_out_of_their_frame() {
        let text = "[thrd:b:1/bootstrap]: b:1/bootstrap: Send failed: Broken pipe (after 1ms in state UP)";
        assert_eq!(bare(text), "b:1/bootstrap: Send failed: Broken pipe");
        assert_eq!(bare("0/1 brokers are down"), "0/1 brokers are down");
    }
}
