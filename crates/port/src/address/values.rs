//! Reads the parameters of an address by the table of its scheme's keys.

use std::fmt;
use std::str::FromStr;

use super::keys::{Key, Kind};
use super::{Address, AddressError};

/// The words of a switch.
const SWITCH: [(&str, bool); 4] = [("yes", true), ("no", false), ("on", true), ("off", false)];

/// The parameters of an address, all of them known to its scheme.
///
/// It is a programmer's error to read a key that is not in the table, or not in the way that the
/// table defines. It panics.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    address: &'a Address,
    keys: &'static [Key],
}

impl Address {
    /// Returns its parameters, checked against a table of keys.
    ///
    /// # Errors
    /// [`AddressError::UnknownKey`] for the first key that is not in the table.
    pub fn values(&self, keys: &'static [Key]) -> Result<Values<'_>, AddressError> {
        let is_unknown = |key: &str| keys.iter().all(|known| known.name != key);
        match self.parameters.iter().find(|(key, _)| is_unknown(key)) {
            None => Ok(Values { address: self, keys }),
            Some((key, _)) => Err(AddressError::unknown_key(self, key, keys)),
        }
    }
}

impl<'a> Values<'a> {
    /// Returns the address that they belong to.
    pub fn address(&self) -> &'a Address {
        self.address
    }

    /// Returns the value of a key as typed, or its default.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        let key = self.key(name);
        self.address.parameter(key.name).or(key.default)
    }

    /// Whether a key was typed.
    pub fn is_typed(&self, name: &str) -> bool {
        self.address.parameter(self.key(name).name).is_some()
    }

    /// Returns an error about the value of a key.
    pub fn wrong(&self, name: &str, reason: impl Into<String>) -> AddressError {
        self.address.bad_value(name, self.text(name).unwrap_or_default(), reason)
    }

    /// Returns the integer of a key that has a default.
    ///
    /// # Errors
    /// A violation of the grammar, or of the bounds in the table.
    pub fn integer<T: TryFrom<u64>>(&self, name: &str) -> Result<T, AddressError> {
        Ok(self.with_default(name, self.typed_integer(name)?))
    }

    /// Returns the integer of a key that was typed or has a default.
    ///
    /// # Errors
    /// As [`integer`](Self::integer).
    pub fn typed_integer<T: TryFrom<u64>>(&self, name: &str) -> Result<Option<T>, AddressError> {
        let Kind::Quantity(bounds) = self.key(name).kind else { panic!("{name}: no integers") };
        let Some(text) = self.text(name) else { return Ok(None) };
        bounds.read(text).map(Some).map_err(|error| self.wrong(name, error.to_string()))
    }

    /// Returns the switch of a key that has a default.
    ///
    /// # Errors
    /// The value is neither yes nor no.
    pub fn switch(&self, name: &str) -> Result<bool, AddressError> {
        Ok(self.with_default(name, self.typed_switch(name)?))
    }

    /// Returns the switch of a key that was typed or has a default.
    ///
    /// # Errors
    /// The value is neither yes nor no.
    pub fn typed_switch(&self, name: &str) -> Result<Option<bool>, AddressError> {
        assert!(matches!(self.key(name).kind, Kind::Switch), "{name}: no switch");
        self.one_of(name, SWITCH.iter().copied())
    }

    /// Returns the meaning of a word, of a key with a default; `meanings` are in the table's order.
    ///
    /// # Errors
    /// The word is not in the table.
    pub fn word<T, const N: usize>(&self, name: &str, meanings: [T; N]) -> Result<T, AddressError> {
        Ok(self.with_default(name, self.typed_word(name, meanings)?))
    }

    /// Returns the meaning of a word, if the key was typed or has a default.
    ///
    /// # Errors
    /// The word is not in the table.
    pub fn typed_word<T, const N: usize>(
        &self,
        name: &str,
        meanings: [T; N],
    ) -> Result<Option<T>, AddressError> {
        let Kind::Words(words) = self.key(name).kind else { panic!("{name}: no words") };
        assert_eq!(words.split('|').count(), N, "{name}: as many meanings as words");
        self.one_of(name, words.split('|').zip(meanings))
    }

    /// Parses the value, if the key was typed or has a default.
    ///
    /// # Errors
    /// The type's parse error.
    pub fn parsed<T: FromStr<Err: fmt::Display>>(
        &self,
        name: &str,
    ) -> Result<Option<T>, AddressError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|error: T::Err| self.wrong(name, error.to_string()))
    }

    fn one_of<'w, T>(
        &self,
        name: &str,
        words: impl Iterator<Item = (&'w str, T)>,
    ) -> Result<Option<T>, AddressError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let mut known = Vec::new();
        for (word, meaning) in words {
            if word == text {
                return Ok(Some(meaning));
            }
            known.push(word);
        }
        Err(self.wrong(name, format!("must be one of {}", known.join(", "))))
    }

    fn with_default<T>(&self, name: &str, value: Option<T>) -> T {
        let Some(value) = value else { panic!("{}: {name} has no default", self.address.scheme) };
        value
    }

    fn key(&self, name: &str) -> &'static Key {
        let Some(key) = self.keys.iter().find(|key| key.name == name) else {
            panic!("{}: '{name}' is read, and not in the table", self.address.scheme)
        };
        #[cfg(test)]
        tests::READ.with_borrow_mut(|read| read.insert(key.name));
        key
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use super::*;

    thread_local! {
        /// Keys that were read.
        pub(super) static READ: RefCell<BTreeSet<&'static str>> = RefCell::default();
    }

    /// Returns the keys that `read` reads.
    pub(crate) fn keys_read_by(read: impl FnOnce()) -> BTreeSet<&'static str> {
        READ.with_borrow_mut(BTreeSet::clear);
        read();
        READ.take()
    }

    const TABLE: &[Key] = &[
        Key::size("size", 64..=4096, "").or("64"),
        Key::words("mode", "slow|fast", "").or("slow"),
        Key::switch("mark", ""),
    ];

    fn error(text: &str, read: impl FnOnce(Values<'_>) -> Result<(), AddressError>) -> String {
        let address: Address = text.parse().unwrap();
        address.values(TABLE).and_then(read).unwrap_err().to_string()
    }

    #[test]
    fn the_table_says_how_a_value_is_read() {
        let address: Address = "null:?size=1k&mode=fast&size=2k".parse().unwrap();
        let values = address.values(TABLE).unwrap();
        assert_eq!(values.integer::<usize>("size"), Ok(2048));
        assert_eq!(values.word("mode", [1, 2]), Ok(2));
        assert_eq!(values.typed_switch("mark"), Ok(None));
        let address: Address = "null:".parse().unwrap();
        let values = address.values(TABLE).unwrap();
        assert_eq!((values.integer("size"), values.word("mode", [1, 2])), (Ok(64_u8), Ok(1)));
        assert!(!values.is_typed("size") && values.text("size") == Some("64"));
        for (word, wanted) in SWITCH {
            let address: Address = format!("null:?mark={word}").parse().unwrap();
            assert_eq!(address.values(TABLE).unwrap().switch("mark"), Ok(wanted));
        }
    }

    #[test]
    fn wrong_values_and_keys_are_named_with_what_there_is() {
        let size = error("null:?size=1", |values| values.integer::<u32>("size").map(drop));
        assert_eq!(size, "null:?size=1: size=1: must be 64-4k");
        let mode = error("null:?mode=x", |values| values.word("mode", [1, 2]).map(drop));
        assert_eq!(mode, "null:?mode=x: mode=x: must be one of slow, fast");
        let mark = error("null:?mark=1", |values| values.switch("mark").map(drop));
        assert!(mark.ends_with("must be one of yes, no, on, off"), "{mark}");
        let key = error("null:?sise=1", |_| Ok(()));
        let known = "null: has no key 'sise' (did you mean size?); its keys are size, mode, mark";
        assert!(key.contains(known), "{key}");
    }

    #[test]
    #[should_panic = "null: 'seed' is read, and not in the table"]
    fn a_key_that_is_not_in_the_table_is_not_read() {
        let address: Address = "null:".parse().unwrap();
        let _ = address.values(TABLE).unwrap().text("seed");
    }
}
