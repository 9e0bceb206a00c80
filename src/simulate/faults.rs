//! What can go wrong with a packet on its way, and how often.

use bytes::{Bytes, BytesMut};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::SimulateError;

/// One kind of damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The packet ends early.
    Truncate,
    /// One bit is the other one. In a cutout nothing can notice it: the packet is another revision.
    Flip,
    /// The schema's id in the header is another one; a container file claims another version of the format.
    WrongId,
    /// The packet before comes again in its place.
    Duplicate,
    /// The packet has a schema newer than any known.
    SchemaBump,
}

impl Fault {
    const NAMED: [(&'static str, Self); 5] = [
        ("truncate", Self::Truncate),
        ("flip", Self::Flip),
        ("wrong-id", Self::WrongId),
        ("duplicate", Self::Duplicate),
        ("schema-bump", Self::SchemaBump),
    ];

    /// Gives the fault's name as `--faults` takes it.
    pub fn name(self) -> &'static str {
        Self::NAMED
            .iter()
            .find(|(_, fault)| *fault == self)
            .map_or("", |(name, _)| name)
    }

    /// Damages a packet; what is not damage of bytes leaves them.
    pub(super) fn applied(self, packet: Bytes, id_byte: usize, rng: &mut ChaCha8Rng) -> Bytes {
        match self {
            Self::Duplicate | Self::SchemaBump => packet,
            Self::Truncate if packet.is_empty() => packet,
            Self::Truncate => packet.slice(..rng.random_range(0..packet.len())),
            Self::Flip => {
                let at = rng.random_range(0..packet.len().max(1));
                let bit = 1 << rng.random_range(0..8);
                changed(packet, at, |byte| byte ^ bit)
            }
            Self::WrongId => changed(packet, id_byte, |byte| byte.wrapping_add(1)),
        }
    }
}

fn changed(packet: Bytes, at: usize, change: impl Fn(u8) -> u8) -> Bytes {
    let mut bytes = BytesMut::from(packet.as_ref());
    if let Some(byte) = bytes.get_mut(at) {
        *byte = change(*byte);
    }
    bytes.freeze()
}

/// How often each kind of damage happens, as a share of the packets; a packet has at most one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    rates: Vec<(Fault, f64)>,
}

impl Faults {
    /// Reads `KIND=RATE,..`, a rate from 0 to 1.
    ///
    /// # Errors
    /// An unknown kind, a rate that is none, rates above 1 together.
    pub fn parse(text: &str) -> Result<Self, SimulateError> {
        let refuse = |why: String| SimulateError::Faults {
            text: text.to_owned(),
            why,
        };
        let names = || Fault::NAMED.map(|(name, _)| name).join(", ");
        let mut rates: Vec<(Fault, f64)> = Vec::new();
        for item in text.split(',').map(str::trim) {
            let (name, rate) = item
                .split_once('=')
                .ok_or_else(|| refuse(format!("write `KIND=RATE,..`, a KIND of {}", names())))?;
            let known = Fault::NAMED.iter().find(|(known, _)| *known == name.trim());
            let (_, fault) = known.ok_or_else(|| refuse(format!("`{name}` is none of {}", names())))?;
            let rate: f64 = rate.trim().parse().unwrap_or(f64::NAN);
            if !(0.0..=1.0).contains(&rate) {
                return Err(refuse(format!("the rate of `{name}` must be a number from 0 to 1")));
            }
            if rates.iter().any(|(given, _)| given == fault) {
                return Err(refuse(format!("`{name}` is given twice")));
            }
            rates.push((*fault, rate));
        }
        if rates.iter().map(|(_, rate)| rate).sum::<f64>() > 1.0 {
            return Err(refuse("the rates are more than 1 together".into()));
        }
        Ok(Self { rates })
    }

    /// Draws what happens to the next packet.
    pub(super) fn draw(&self, rng: &mut ChaCha8Rng) -> Option<Fault> {
        if self.rates.is_empty() {
            return None;
        }
        let mut left = rng.random_range(0.0..1.0);
        self.rates.iter().find_map(|(fault, rate)| {
            left -= rate;
            (left < 0.0).then_some(*fault)
        })
    }
}
