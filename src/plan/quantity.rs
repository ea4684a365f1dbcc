//! Exact arithmetic on Kubernetes quantities (`500m`, `4Gi`, `1e3`).
//!
//! Grammar, rounding and canonical form are those of the Kubernetes API: nothing finer than a billionth, rounded away
//! from zero; a sum is written in the format of its first non-zero addend, which is what users know from
//! `kubectl` and from KubeRay's status.

use std::fmt;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

const NANO: i128 = 1_000_000_000;
/// The API holds no amount above 2^63 - 1 (Kubernetes caps there).
const MAX_NANO: i128 = (i64::MAX as i128) * NANO;

/// How an amount is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// `m`, none, `k`, `M`, ...
    Decimal,
    /// `Ki`, `Mi`, ...
    Binary,
    /// `e3`, `e6`, ...
    Exponent,
}

/// A parsed quantity. `Amount::default()` is zero and takes the format of whatever is added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    nano: i128,
    format: Format,
}

impl Default for Amount {
    fn default() -> Self {
        Amount { nano: 0, format: Format::Decimal }
    }
}

impl Amount {
    /// Reads a quantity; `None` when the text is none by the API's grammar.
    pub fn parse(text: &str) -> Option<Amount> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return None;
        }
        let (format, scale) = parse_suffix(suffix)?;
        let nano = to_nano(whole, fraction, scale).min(MAX_NANO);
        Some(Amount { nano: if negative { -nano } else { nano }, format })
    }

    /// [`Amount::parse`] on the API's type.
    pub fn of(quantity: &Quantity) -> Option<Amount> {
        Amount::parse(quantity.0.trim())
    }

    pub fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// Whether this is at least as much.
    pub fn covers(self, other: Amount) -> bool {
        self.nano >= other.nano
    }

    /// The sum, in the format of the first addend that is not zero.
    pub fn plus(self, other: Amount) -> Amount {
        let format = if self.is_zero() { other.format } else { self.format };
        Amount { nano: self.nano.saturating_add(other.nano).clamp(-MAX_NANO, MAX_NANO), format }
    }

    /// The same amount `count` times.
    pub fn times(self, count: u32) -> Amount {
        Amount { nano: self.nano.saturating_mul(i128::from(count)).clamp(-MAX_NANO, MAX_NANO), ..self }
    }

    /// Whole units, a part of one counting as one (Kubernetes' `Value`).
    pub fn rounded_up(self) -> i64 {
        // Within i64: every constructor caps at MAX_NANO.
        (self.nano.div_euclid(NANO) + i128::from(self.nano.rem_euclid(NANO) != 0)) as i64
    }

    /// The nearest floating-point number, for Ray's own resource amounts.
    pub fn as_f64(self) -> f64 {
        match (self.nano / NANO, self.nano % NANO) {
            (whole, 0) => whole as f64,
            // Read from its decimal text, so that 0.3 is the closest number to 0.3.
            (whole, part) => {
                let sign = if self.nano < 0 { "-" } else { "" };
                format!("{sign}{}.{:09}", whole.abs(), part.abs()).parse().unwrap_or(0.0)
            }
        }
    }

    /// The canonical text as the API's type.
    pub fn quantity(self) -> Quantity {
        Quantity(self.to_string())
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        let whole = self.nano % NANO == 0;
        if self.format == Format::Binary && whole && self.nano.abs() >= 1024 * NANO {
            let (mut number, mut step) = (self.nano / NANO, 0);
            while number % 1024 == 0 && step + 1 < BINARY.len() {
                (number, step) = (number / 1024, step + 1);
            }
            return write!(f, "{number}{}", BINARY[step]);
        }
        let (mut number, mut exponent) = (self.nano, -9);
        while number % 1000 == 0 && exponent < 18 {
            (number, exponent) = (number / 1000, exponent + 3);
        }
        match (self.format, exponent) {
            (Format::Exponent, 0) => write!(f, "{number}"),
            (Format::Exponent, e) => write!(f, "{number}e{e}"),
            (_, e) => write!(f, "{number}{}", DECIMAL[((e + 9) / 3) as usize]),
        }
    }
}

/// By powers of a thousand from a billionth up.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// By powers of 1024 from one up.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

enum Scale {
    PowerOfTen(i32),
    Times(i128),
}

fn parse_suffix(suffix: &str) -> Option<(Format, Scale)> {
    if let Some(step) = DECIMAL.iter().position(|s| *s == suffix) {
        return Some((Format::Decimal, Scale::PowerOfTen(3 * step as i32 - 9)));
    }
    if let Some(step) = BINARY.iter().position(|s| *s == suffix) {
        return Some((Format::Binary, Scale::Times(1024_i128.pow(step as u32))));
    }
    let digits = suffix.strip_prefix(['e', 'E'])?;
    let exponent: i32 = digits.parse().ok()?;
    Some((Format::Exponent, Scale::PowerOfTen(exponent)))
}

/// `whole.fraction` times the scale in billionths, rounded away from zero and saturating.
fn to_nano(whole: &str, fraction: &str, scale: Scale) -> i128 {
    let digits = whole.bytes().chain(fraction.bytes()).map(|b| i128::from(b - b'0'));
    let mantissa = digits.fold(0_i128, |n, d| n.saturating_mul(10).saturating_add(d));
    let (mantissa, exponent) = match scale {
        Scale::PowerOfTen(e) => (mantissa, i64::from(e)),
        Scale::Times(factor) => (mantissa.saturating_mul(factor), 0),
    };
    let shift = exponent + 9 - fraction.len() as i64;
    let power = u32::try_from(shift.unsigned_abs()).ok().and_then(|n| 10_i128.checked_pow(n));
    match (shift >= 0, power) {
        _ if mantissa == 0 => 0,
        (true, power) => mantissa.saturating_mul(power.unwrap_or(i128::MAX)),
        (false, None) => 1,
        (false, Some(power)) => mantissa / power + i128::from(mantissa % power != 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(parts: &[&str]) -> String {
        parts.iter().fold(Amount::default(), |a, p| a.plus(Amount::parse(p).unwrap())).to_string()
    }

    #[test]
    fn text_is_canonical() {
        for (given, canonical) in [
            ("0", "0"),
            ("0Gi", "0"),
            ("1", "1"),
            ("+2", "2"),
            ("-3", "-3"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("5.", "5"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("1500", "1500"),
            ("5000", "5k"),
            ("100000", "100k"),
            ("1000k", "1M"),
            ("123E", "9223372036854775807"),
            ("9E", "9E"),
            ("100n", "100n"),
            ("0.1n", "1n"),
            ("2u", "2u"),
            ("4Gi", "4Gi"),
            ("4096Mi", "4Gi"),
            ("1.5Gi", "1536Mi"),
            ("1023Ki", "1023Ki"),
            ("0.5Ki", "512"),
            ("512Mi", "512Mi"),
            ("0.0001Ki", "102400u"),
            ("1025.5Ki", "1050112"),
            ("0.9765625Ki", "1k"),
            ("1024.0001Ki", "1048576102400u"),
            ("1e3", "1e3"),
            ("1500e-3", "1500e-3"),
            ("5e0", "5"),
            ("1E6", "1e6"),
            ("12E", "9223372036854775807"),
            ("1e400", "9223372036854775807"),
            ("0e400", "0"),
            ("1e-400", "1e-9"),
        ] {
            let amount = Amount::parse(given).unwrap_or_else(|| panic!("{given} is a quantity"));
            assert_eq!(amount.to_string(), canonical, "{given}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "x", "1x", "1 Gi", "1.2.3", ".", "-", "1e", "1e1.5", "Gi", "1KI", "0x10", "1_000", "--1"] {
            assert_eq!(Amount::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_sum_keeps_the_format_of_its_first_addend() {
        assert_eq!(sum(&["500m", "9"]), "9500m");
        let nine_g = Amount::parse("1G").unwrap().times(9);
        assert_eq!(Amount::parse("4Gi").unwrap().plus(nine_g).to_string(), "13294967296");
        assert_eq!(sum(&["0", "4Gi"]), "4Gi");
        assert_eq!(sum(&["1Ki", "976"]), "2000");
        assert_eq!(sum(&["976", "1Ki"]), "2k");
        assert_eq!(sum(&["2Gi", "2Gi"]), "4Gi");
        assert_eq!(sum(&["1", "500m", "500m"]), "2");
        assert_eq!(sum(&["9E", "9E"]), "9223372036854775807");
    }

    #[test]
    fn units_are_counted_upwards() {
        for (text, units) in [("0", 0), ("100m", 1), ("1", 1), ("1001m", 2), ("2Gi", 2_147_483_648), ("-1500m", -1)] {
            assert_eq!(Amount::parse(text).unwrap().rounded_up(), units, "{text}");
        }
    }

    #[test]
    fn floats_are_the_nearest() {
        for (text, f) in
            [("500m", 0.5), ("300m", 0.3), ("50m", 0.05), ("1", 1.0), ("-1500m", -1.5), ("1Gi", 1_073_741_824.0)]
        {
            assert_eq!(Amount::parse(text).unwrap().as_f64(), f, "{text}");
        }
    }
}
