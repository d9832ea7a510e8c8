//! Decimal integers of fixed width, as snarkjs writes field elements into JSON.

/// Parses canonical decimal digits (no sign, no leading zero) into big-endian bytes. None when it is
/// anything else or does not fit.
pub fn parse<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    let digits = text.as_bytes();
    let canonical = digits.iter().all(u8::is_ascii_digit) && (digits == b"0" || digits.first() > Some(&b'0'));
    // 8 bits hold 2.4 digits: longer texts do not fit, however long they are.
    if !canonical || digits.len() > (BYTES * 5).div_ceil(2) {
        return None;
    }
    let mut out = [0u8; BYTES];
    for digit in digits {
        let mut carry = u32::from(digit - b'0');
        for byte in out.iter_mut().rev() {
            carry += u32::from(*byte) * 10;
            *byte = carry as u8;
            carry >>= 8;
        }
        if carry != 0 {
            return None;
        }
    }
    Some(out)
}

/// The canonical decimal digits of a big-endian integer.
pub fn format(big_endian: &[u8]) -> String {
    let mut number = big_endian.to_vec();
    let mut digits = Vec::new();
    while number.iter().any(|b| *b != 0) || digits.is_empty() {
        let mut remainder = 0;
        for byte in number.iter_mut() {
            let value = remainder << 8 | u32::from(*byte);
            *byte = (value / 10) as u8;
            remainder = value % 10;
        }
        digits.push(char::from(b'0' + remainder as u8));
    }
    digits.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges() {
        assert_eq!(parse::<2>("0"), Some([0, 0]));
        assert_eq!(parse::<2>("65535"), Some([255, 255]));
        assert_eq!((parse::<1>("255"), parse::<1>("256")), (Some([255]), None));
        assert_eq!(format(&[255, 255]), "65535");
        assert_eq!(format(&[0, 0]), "0");
        assert_eq!(format(&[]), "0");
        for bad in ["", "65536", "00", "01", "+1", "-1", " 1", "1 ", "0x1", "1e1", "١", "99999999999999"] {
            assert_eq!(parse::<2>(bad), None, "{bad:?}");
        }
        assert_eq!(parse::<32>(&"9".repeat(1 << 20)), None);
    }

    proptest! {
        #[test]
        fn round_trips(v in any::<u128>()) {
            let text = format(&v.to_be_bytes());
            prop_assert_eq!(&text, &v.to_string());
            prop_assert_eq!(parse::<16>(&text), Some(v.to_be_bytes()));
        }
    }
}
