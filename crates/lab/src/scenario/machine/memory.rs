//! Reads the memory speed from the firmware.

use std::fs;

/// The kernel's copy of the firmware's table.
const TABLE: &str = "/sys/firmware/dmi/tables/DMI";

/// The relevant structures and the offsets in them. Source: SMBIOS 3.7 (DSP0134), sections 7.18 and
/// 7.45.
const MEMORY_DEVICE: u8 = 17;
const END: u8 = 127;
const SIZE: usize = 0x0c;
const SPEED: usize = 0x15;
const CONFIGURED: usize = 0x20;

/// Returns the present and maximum speed of the modules, each once; or `unknown: ` and the reason.
pub(super) fn speed() -> String {
    match fs::read(TABLE) {
        Ok(table) => of_table(&table),
        Err(error) => format!("unknown: {TABLE}: {error}"),
    }
}

fn of_table(table: &[u8]) -> String {
    let mut found: Vec<(String, usize)> = Vec::new();
    for device in structures(table).filter(|structure| structure[0] == MEMORY_DEVICE) {
        let word = |at: usize| {
            let bytes = device.get(at..at + 2)?;
            Some(u16::from_le_bytes([bytes[0], bytes[1]])).filter(|&word| word != 0)
        };
        // An empty slot.
        if word(SIZE).is_none() {
            continue;
        }
        let megas = |at: usize| word(at).map_or("?".to_owned(), |speed| speed.to_string());
        let text = format!("{} MT/s of {}", megas(CONFIGURED), megas(SPEED));
        match found.iter_mut().find(|(known, _)| *known == text) {
            Some((_, count)) => *count += 1,
            None => found.push((text, 1)),
        }
    }
    if found.is_empty() {
        return format!("unknown: {TABLE} has no memory device");
    }
    let texts = found.into_iter().map(|(text, count)| format!("{count} x {text}"));
    texts.collect::<Vec<_>>().join(", ")
}

/// Returns the formatted parts: type, length, handle, and so on. Each is followed by texts, which
/// end with two zeros. Source: section 6.1.
fn structures(table: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = table;
    std::iter::from_fn(move || {
        let length = usize::from(*rest.get(1)?);
        let structure = rest.get(..length).filter(|_| length >= 4 && rest[0] != END)?;
        let texts = rest[length..].windows(2).position(|pair| pair == [0, 0])?;
        rest = &rest[length + texts + 2..];
        Some(structure)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a structure of that type with those words in it, and its texts.
    fn structure(kind: u8, words: &[(usize, u16)]) -> Vec<u8> {
        let mut bytes = [0; 0x28];
        (bytes[0], bytes[1]) = (kind, 0x28);
        for &(at, word) in words {
            bytes[at..at + 2].copy_from_slice(&word.to_le_bytes());
        }
        [&bytes[..], b"DIMM 0\0Bank\0\0"].concat()
    }

    #[test]
    fn modules_are_counted_and_empty_slots_are_not() {
        let module = structure(MEMORY_DEVICE, &[(SIZE, 1), (SPEED, 3200), (CONFIGURED, 2933)]);
        let table = [
            structure(16, &[(SPEED, 1)]),
            module.clone(),
            structure(MEMORY_DEVICE, &[(SPEED, 3200)]),
            module.clone(),
            structure(END, &[]),
            module.clone(),
        ];
        assert_eq!(of_table(&table.concat()), "2 x 2933 MT/s of 3200");
        let silent = structure(MEMORY_DEVICE, &[(SIZE, 1)]);
        assert_eq!(of_table(&silent), "1 x ? MT/s of ?");
        // A table truncated anywhere must not panic.
        (0..module.len()).for_each(|end| assert!(of_table(&module[..end]).starts_with("unknown")));
        assert!(of_table(&[17, 2, 0, 0]).starts_with("unknown"));
    }
}
