//! Cheap noise: a pure function of where it is asked for, so that nothing needs to be stored to be coherent.

/// Scrambles a number (the finaliser of splitmix64).
pub(super) fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A run of noise that begins at a place.
#[derive(Clone, Debug)]
pub(super) struct Noise(u64);

impl Noise {
    /// Begins at a place named by two numbers.
    pub(super) fn at(what: u64, place: u64) -> Self {
        Self(scramble(what ^ scramble(place)))
    }

    /// Gives the next number, any of 64 bits.
    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        scramble(self.0)
    }

    /// Gives the next number from 0 to 1.
    pub(super) fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Gives the next number between two.
    pub(super) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.share()
    }

    /// Gives the next nearly normal number: mean 0, deviation 1, never beyond 3.5.
    pub(super) fn normal(&mut self) -> f64 {
        let bits = self.bits();
        let sum = [0, 16, 32, 48]
            .map(|shift| f64::from((bits >> shift) as u16))
            .iter()
            .sum::<f64>();
        (sum / 65_536.0 - 2.0) * 3.0_f64.sqrt()
    }
}
