//! Questions that have a name. Their SQL runs in DuckDB and Spark alike.

use std::net::IpAddr;

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// As it is typed.
    pub name: &'static str,
    /// Its SQL; `{limit}` and `{address}` stand for values.
    pub sql: &'static str,
    /// The column that a chart shows.
    pub chart: &'static str,
}

/// All of them.
pub const READY: [Ready; 5] = [
    Ready { name: "top-talkers", sql: include_str!("ready/top-talkers.sql"), chart: "bytes" },
    Ready { name: "losses", sql: include_str!("ready/losses.sql"), chart: "lost_at_least" },
    Ready { name: "scan", sql: include_str!("ready/scan.sql"), chart: "refused" },
    Ready { name: "who-talked-to", sql: include_str!("ready/who-talked-to.sql"), chart: "bytes" },
    Ready { name: "rates", sql: include_str!("ready/rates.sql"), chart: "bits_per_s" },
];

/// What stands for `{limit}` and `{address}`.
#[derive(Clone, Copy, Debug)]
pub struct Values {
    /// The most rows.
    pub limit: u64,
    /// Whom the question is about.
    pub address: Option<IpAddr>,
}

impl Ready {
    /// The one of this name.
    pub fn of(name: &str) -> Option<&'static Self> {
        READY.iter().find(|ready| ready.name == name)
    }

    /// Whether it is about an address.
    pub fn needs_address(&self) -> bool {
        self.sql.contains("{address}")
    }

    /// The SQL with its values. `None`: it is about an address, and there is none.
    pub fn filled(&self, values: Values) -> Option<String> {
        let sql = self.sql.replace("{limit}", &values.limit.to_string());
        match (self.needs_address(), values.address) {
            (false, _) => Some(sql),
            (true, Some(address)) => Some(sql.replace("{address}", &address.to_string())),
            (true, None) => None,
        }
    }
}
