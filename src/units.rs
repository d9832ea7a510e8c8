//! Quantities as an operator writes them: "16GiB", "30s". A number without its unit is refused, for
//! the reader would have to guess it.
use std::time::Duration;

const SIZES: [(&str, u64); 5] =
    [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];
const DURATIONS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// `found` was not a whole number with one of the units of `wanted`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found {found:?}, wanted {wanted}")]
pub struct UnitError {
    found: String,
    wanted: &'static str,
}

fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

fn show(value: u64, units: &[(&str, u64)]) -> String {
    let exact = units.iter().rev().find(|(_, factor)| value != 0 && value.is_multiple_of(*factor));
    let (name, factor) = exact.or(units.first()).copied().unwrap_or(("", 1));
    format!("{}{name}", value / factor)
}

/// Bytes from text such as "16GiB": a whole number and one of B, KiB, MiB, GiB, TiB.
///
/// # Errors
/// [`UnitError`] where it is anything else, or 2^64 bytes and more.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let wanted = "a whole number with a unit (B, KiB, MiB, GiB, TiB), such as \"16GiB\"";
    parse(text, &SIZES).ok_or_else(|| UnitError { found: text.to_owned(), wanted })
}

/// Time from text such as "30s": a whole number and one of ms, s, min, h, d.
///
/// # Errors
/// [`UnitError`] where it is anything else, or too long to count in milliseconds.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let wanted = "a whole number with a unit (ms, s, min, h, d), such as \"30s\"";
    let millis = parse(text, &DURATIONS).ok_or_else(|| UnitError { found: text.to_owned(), wanted })?;
    Ok(Duration::from_millis(millis))
}

/// The exact value in the largest unit that states it as a whole number; [`parse_bytes`] reads it back.
pub fn show_bytes(bytes: u64) -> String {
    show(bytes, &SIZES)
}

/// As [`show_bytes`], for whole milliseconds.
pub fn show_duration(duration: Duration) -> String {
    show(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX), &DURATIONS)
}

/// A size for people to read, to three figures: "1.50 GiB".
pub fn about_bytes(bytes: u64) -> String {
    let (name, factor) = SIZES.iter().rev().find(|(_, factor)| bytes >= *factor).unwrap_or(&SIZES[0]);
    if *factor == 1 {
        return format!("{bytes} {name}");
    }
    let value = bytes as f64 / *factor as f64;
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.decimals$} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes() {
        for (text, bytes) in
            [("0B", 0), ("1B", 1), ("16GiB", 16 << 30), ("3TiB", 3 << 40), ("007KiB", 7 << 10)]
        {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for bad in [
            "",
            "16",
            "GiB",
            "16 GiB",
            "16GB",
            "16gib",
            "-1B",
            "1.5GiB",
            "16777216TiB",
            "99999999999999999999B",
            "1GiBx",
        ] {
            let error = parse_bytes(bad).unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")) && error.contains("GiB"), "{error}");
        }
    }

    #[test]
    fn durations() {
        for (text, millis) in
            [("0s", 0), ("250ms", 250), ("30s", 30_000), ("2min", 120_000), ("1d", 86_400_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for bad in ["", "30", "s", "30 s", "30sec", "1m", "-1s", "1.5h", "213503982335d"] {
            let error = parse_duration(bad).unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")) && error.contains("min"), "{error}");
        }
    }

    #[test]
    fn sizes_for_people() {
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.50 KiB"), (10 << 30, "10.0 GiB"), (700 << 20, "700 MiB")]
        {
            assert_eq!(about_bytes(bytes), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(bytes: u64, millis in 0..u64::MAX) {
            prop_assert_eq!(parse_bytes(&show_bytes(bytes)), Ok(bytes));
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse_duration(&show_duration(duration)), Ok(duration));
        }
    }
}
