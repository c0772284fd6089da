//! Key tables of schemes: the one source for parsing parameters and for help texts.

use std::fmt::Write;
use std::ops::RangeInclusive;

use burstline_wire::grammar::{Bounds, Quantity};

/// A parameter of an address, as in `SCHEME:TARGET?NAME=VALUE`.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// The values that it takes.
    pub kind: Kind,
    /// The default; `None` if that depends, and `help` says on what.
    pub default: Option<&'static str>,
    /// Its description, in a sentence or two.
    help: &'static str,
    /// The placeholder for the value in help texts, if its kind is not specific enough.
    shape: Option<&'static str>,
    /// Whether it needs no value, and then means yes.
    pub(crate) stands_alone: bool,
}

/// The values that a key takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// One of these words, separated by `|`.
    Words(&'static str),
    /// Yes or no, also as on or off.
    Switch,
    /// An integer.
    Quantity(Bounds),
    /// Text that the scheme parses: a rate, a list, an address.
    Text,
}

impl Key {
    const fn new(name: &'static str, kind: Kind, help: &'static str) -> Self {
        Self { name, kind, default: None, help, shape: None, stands_alone: false }
    }

    /// A key that takes one of a few words, separated by `|`.
    pub const fn words(name: &'static str, words: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Words(words), help)
    }

    /// A key that takes yes or no.
    pub const fn switch(name: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Switch, help)
    }

    /// A key that takes a number.
    pub const fn number(
        name: &'static str,
        range: RangeInclusive<u64>,
        help: &'static str,
    ) -> Self {
        Self::new(name, Kind::Quantity(Bounds::new(Quantity::Number, range)), help)
    }

    /// A key that takes a number of bytes.
    pub const fn size(name: &'static str, range: RangeInclusive<u64>, help: &'static str) -> Self {
        Self::new(name, Kind::Quantity(Bounds::new(Quantity::Size, range)), help)
    }

    /// A key that takes a time with a unit; in ns.
    pub const fn time(name: &'static str, range: RangeInclusive<u64>, help: &'static str) -> Self {
        Self::new(name, Kind::Quantity(Bounds::new(Quantity::Time, range)), help)
    }

    /// A key that takes milliseconds, or a time with a unit.
    pub const fn milliseconds(
        name: &'static str,
        range: RangeInclusive<u64>,
        help: &'static str,
    ) -> Self {
        Self::new(name, Kind::Quantity(Bounds::new(Quantity::Milliseconds, range)), help)
    }

    /// A key whose value the scheme parses; `shape` is its placeholder in help texts.
    pub const fn text(name: &'static str, shape: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Text, help).shaped(shape)
    }

    /// Restricts integers to powers of two.
    ///
    /// # Panics
    /// If the key takes no integers.
    #[must_use]
    pub const fn powers_of_two(self) -> Self {
        match self.kind {
            Kind::Quantity(bounds) => Self { kind: Kind::Quantity(bounds.powers_of_two()), ..self },
            _ => panic!("no integers"),
        }
    }

    /// Sets the default.
    #[must_use]
    pub const fn or(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    /// Makes the key mean yes when it has no value.
    #[must_use]
    pub const fn alone(self) -> Self {
        Self { stands_alone: true, ..self }
    }

    /// Sets another placeholder for help texts.
    #[must_use]
    pub const fn shaped(self, shape: &'static str) -> Self {
        Self { shape: Some(shape), ..self }
    }

    /// Returns the placeholder for the value in help texts: `on|off`, `N`, `SIZE`.
    pub fn shape(&self) -> &'static str {
        match (self.shape, self.kind) {
            (Some(shape), _) => shape,
            (None, Kind::Words(words)) => words,
            (None, Kind::Switch) => "yes|no",
            (None, Kind::Quantity(bounds)) => bounds.quantity().shape(),
            (None, Kind::Text) => "TEXT",
        }
    }

    /// Returns its description, with the values that it takes and its default.
    pub fn description(&self) -> String {
        // The explanation of the default comes last.
        let (what, otherwise) =
            self.help.split_at(self.help.find(" [default:").unwrap_or(self.help.len()));
        let mut text = what.to_owned();
        // Writing to a string cannot fail.
        if let Kind::Quantity(bounds) = self.kind
            && !bounds.is_open()
        {
            let _ = write!(text, ", {bounds}");
        }
        if self.stands_alone {
            text += "; without a value, yes";
        }
        text += otherwise;
        if let Some(default) = self.default {
            let _ = write!(text, " [default: {default}]");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_has_bounds_and_default() {
        let key = Key::size("segment", 4096..=16 << 20, "Bytes of a segment").powers_of_two();
        let text = key.or("1m").description();
        assert_eq!(text, "Bytes of a segment, a power of two, 4k-16m [default: 1m]");
        let ring = Key::number("ring", 1..=9, "Entries [default: as frames]");
        assert_eq!(ring.description(), "Entries, 1-9 [default: as frames]");
        assert_eq!(Key::switch("pace", "Whether to wait").description(), "Whether to wait");
        let shapes = [Key::switch("a", ""), Key::words("b", "x|y", ""), key];
        assert_eq!(shapes.map(|key| key.shape()), ["yes|no", "x|y", "SIZE"]);
    }
}
