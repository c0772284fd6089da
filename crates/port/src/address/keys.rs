//! The keys of a scheme: the one table from which its parameters are read, and help texts made.

use std::fmt::Write;
use std::ops::RangeInclusive;

use burstline_wire::grammar::{Bounds, Quantity};

/// One thing that can be said in an address, as `SCHEME:TARGET?NAME=VALUE`.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Which values it takes.
    pub kind: Kind,
    /// The value where nothing is said; `None` where that depends, and `help` says on what.
    pub default: Option<&'static str>,
    /// What it is, in a sentence or two.
    help: &'static str,
    /// What stands for the value in help texts, if its kind says too little.
    shape: Option<&'static str>,
    /// Whether it needs no value, and is yes without one.
    pub(crate) stands_alone: bool,
}

/// Which values a key takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// One of these words, with `|` between them.
    Words(&'static str),
    /// Yes or no, also as on or off.
    Switch,
    /// An integer.
    Quantity(Bounds),
    /// What the scheme itself reads: a rate, a list, an address.
    Text,
}

impl Key {
    const fn new(name: &'static str, kind: Kind, help: &'static str) -> Self {
        Self { name, kind, default: None, help, shape: None, stands_alone: false }
    }

    /// One of a few words, which have `|` between them.
    pub const fn words(name: &'static str, words: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Words(words), help)
    }

    /// Yes or no.
    pub const fn switch(name: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Switch, help)
    }

    /// A number.
    pub const fn number(
        name: &'static str,
        range: RangeInclusive<u64>,
        help: &'static str,
    ) -> Self {
        Self::new(name, Kind::Quantity(Bounds::new(Quantity::Number, range)), help)
    }

    /// Bytes.
    pub const fn size(name: &'static str, range: RangeInclusive<u64>, help: &'static str) -> Self {
        Self::new(name, Kind::Quantity(Bounds::new(Quantity::Size, range)), help)
    }

    /// A time, with a unit; in ns.
    pub const fn time(name: &'static str, range: RangeInclusive<u64>, help: &'static str) -> Self {
        Self::new(name, Kind::Quantity(Bounds::new(Quantity::Time, range)), help)
    }

    /// Milliseconds, or a time with a unit.
    pub const fn milliseconds(
        name: &'static str,
        range: RangeInclusive<u64>,
        help: &'static str,
    ) -> Self {
        Self::new(name, Kind::Quantity(Bounds::new(Quantity::Milliseconds, range)), help)
    }

    /// What the scheme reads itself; `shape` stands for it in help texts.
    pub const fn text(name: &'static str, shape: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Text, help).shaped(shape)
    }

    /// Of the integers, the powers of two.
    ///
    /// # Panics
    /// If it takes no integers.
    #[must_use]
    pub const fn powers_of_two(self) -> Self {
        match self.kind {
            Kind::Quantity(bounds) => Self { kind: Kind::Quantity(bounds.powers_of_two()), ..self },
            _ => panic!("no integers"),
        }
    }

    /// With a value that holds where nothing is said.
    #[must_use]
    pub const fn or(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    /// Which is yes where it stands without a value.
    #[must_use]
    pub const fn alone(self) -> Self {
        Self { stands_alone: true, ..self }
    }

    /// With something else that stands for the value in help texts.
    #[must_use]
    pub const fn shaped(self, shape: &'static str) -> Self {
        Self { shape: Some(shape), ..self }
    }

    /// What stands for the value in help texts: `on|off`, `N`, `SIZE`.
    pub fn shape(&self) -> &'static str {
        match (self.shape, self.kind) {
            (Some(shape), _) => shape,
            (None, Kind::Words(words)) => words,
            (None, Kind::Switch) => "yes|no",
            (None, Kind::Quantity(bounds)) => bounds.quantity().shape(),
            (None, Kind::Text) => "TEXT",
        }
    }

    /// What it is, which values it takes and which it has where nothing is said.
    pub fn description(&self) -> String {
        // What the default depends on is the last that is said.
        let (what, otherwise) =
            self.help.split_at(self.help.find(" [default:").unwrap_or(self.help.len()));
        let mut text = what.to_owned();
        // Into a text, so it cannot fail.
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
