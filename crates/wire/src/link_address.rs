//! Link addresses in text form: one grammar for all of them.
//!
//! Six numbers of one or two hexadecimal digits with colons between them: `02:00:00:00:00:01`,
//! `2:0:0:0:0:1`. Source: IEEE 802-2014, 8.1, which has hyphens; `ip-link(8)`, which has colons.

/// Parses an address; `None` if the text is invalid.
pub fn parse(text: &str) -> Option<[u8; 6]> {
    let byte = |digits: &str| {
        // `from_str_radix` would also accept a sign.
        let is_number = digits.bytes().all(|digit| digit.is_ascii_hexdigit()) && digits.len() <= 2;
        is_number.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
    };
    let mut bytes = text.split(':').map(byte);
    let mut address = [0; 6];
    for place in &mut address {
        *place = bytes.next()??;
    }
    bytes.next().is_none().then_some(address)
}

/// Formats an address with two digits per byte.
#[must_use]
pub fn text(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_numbers_of_two_digits_at_most() {
        assert_eq!(parse("02:00:00:00:00:01"), Some([2, 0, 0, 0, 0, 1]));
        assert_eq!(parse("a:B:0c:D0:ff:0"), Some([10, 11, 12, 0xd0, 0xff, 0]));
        assert_eq!(text([2, 0, 0, 0, 0xab, 1]), "02:00:00:00:ab:01");
        for wrong in [
            "",
            ":::::",
            "1:2:3:4:5",
            "1:2:3:4:5:6:7",
            "1:2:3:4:5:",
            "1:2:3:4:5:+6",
            "1:2:3:4:5:006",
            "1:2:3:4:5:g",
            "1:2:3:4:5: 6",
            "1-2-3-4-5-6",
            "1:2:3:4:5:é",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
