//! Durations and sizes as configuration files write them: `"500ms"`, `"1s"`, `"5m"`; `"128MiB"`, `1048576`. And counts as
//! people read them.
//!
//! Owns nothing but these spellings. Must not know whose values they are.

/// Writes how many of something there are: `1 check`, `2 checks`.
pub(crate) fn counted<N: std::fmt::Display + PartialEq + From<u8>>(count: N, what: &str) -> String {
    let ending = if count == N::from(1) { "" } else { "s" };
    format!("{count} {what}{ending}")
}

/// For `#[serde(with = "units::duration")]`.
pub mod duration {
    use std::fmt;
    use std::time::Duration;

    use serde::de::{Deserializer, Error, Visitor};
    use serde::ser::Serializer;

    /// Reads a duration.
    ///
    /// # Errors
    /// The text is no duration.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        from.deserialize_str(Span)
    }

    struct Span;

    impl Visitor<'_> for Span {
        type Value = Duration;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a duration in quotes, such as `500ms`, `1s` or `5m`")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
            humantime::parse_duration(text)
                .map_err(|_| E::custom(format!("`{text}` is no duration: write e.g. `500ms`, `1s` or `5m`")))
        }
    }

    /// Writes a duration.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&humantime::format_duration(*duration))
    }
}

/// For `#[serde(with = "units::optional_duration")]` beside `default`.
pub mod optional_duration {
    use std::time::Duration;

    use serde::{Deserializer, Serializer};

    /// Reads a duration.
    ///
    /// # Errors
    /// The text is no duration.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        super::duration::deserialize(from).map(Some)
    }

    /// Writes a duration, or nothing.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(duration: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => super::duration::serialize(duration, to),
            None => to.serialize_none(),
        }
    }
}

/// For `#[serde(with = "units::bytes")]`.
pub mod bytes {
    use std::fmt;

    use serde::de::{Deserializer, Error, Visitor};
    use serde::ser::Serializer;

    /// Reads a size in bytes: a number, or text with a unit.
    ///
    /// # Errors
    /// The value is no size.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        from.deserialize_any(Size)
    }

    /// Writes a size in bytes as a number.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(bytes: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(*bytes)
    }

    struct Size;

    impl Visitor<'_> for Size {
        type Value = u64;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a size such as `128MiB`, or a number of bytes")
        }

        fn visit_u64<E: Error>(self, bytes: u64) -> Result<u64, E> {
            Ok(bytes)
        }

        fn visit_i64<E: Error>(self, bytes: i64) -> Result<u64, E> {
            u64::try_from(bytes)
                .map_err(|_| E::custom(format!("`{bytes}` is no size: give a positive number of bytes")))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
            let size: Result<bytesize::ByteSize, _> = text.parse();
            size.map(|size| size.as_u64())
                .map_err(|_| E::custom(format!("`{text}` is no size: write e.g. `128MiB` or a number of bytes")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Values {
        #[serde(default, with = "super::optional_duration")]
        limit: Option<Duration>,
        #[serde(with = "super::duration")]
        first: Duration,
        #[serde(with = "super::bytes")]
        size: u64,
    }

    fn read(text: &str) -> Result<Values, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn durations_and_sizes_are_read_as_people_write_them() {
        let values = read("first = '1m 30s'\nsize = '128MiB'\nlimit = '500ms'").unwrap();
        assert_eq!(values.first, Duration::from_secs(90));
        assert_eq!(values.size, 128 << 20);
        assert_eq!(values.limit, Some(Duration::from_millis(500)));
        assert_eq!(read("first = '0s'\nsize = 77").unwrap().size, 77);
        assert_eq!(read("first = '0s'\nsize = 77").unwrap().limit, None);
    }

    #[test]
    fn one_of_something_is_not_many() {
        let told = [0_usize, 1, 2].map(|count| super::counted(count, "check"));
        assert_eq!(told, ["0 checks", "1 check", "2 checks"]);
    }

    #[test]
    fn what_is_no_duration_or_size_is_named() {
        assert!(
            read("first = '5 parsecs'\nsize = 1")
                .err()
                .unwrap()
                .contains("`5 parsecs` is no duration")
        );
        assert!(
            read("first = '1s'\nsize = 'much'")
                .err()
                .unwrap()
                .contains("`much` is no size")
        );
        assert!(
            read("first = '1s'\nsize = -1")
                .err()
                .unwrap()
                .contains("`-1` is no size")
        );
    }
}
