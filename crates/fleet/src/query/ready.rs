//! Predefined queries. Their SQL runs in both DuckDB and Spark.

use std::net::IpAddr;

/// A predefined query.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// Its name.
    pub name: &'static str,
    /// Its SQL, with the placeholders `{limit}` and `{address}`.
    pub sql: &'static str,
    /// The column for charts.
    pub chart: &'static str,
}

/// All predefined queries.
pub const READY: [Ready; 5] = [
    Ready { name: "top-talkers", sql: include_str!("ready/top-talkers.sql"), chart: "bytes" },
    Ready { name: "losses", sql: include_str!("ready/losses.sql"), chart: "lost_at_least" },
    Ready { name: "scan", sql: include_str!("ready/scan.sql"), chart: "refused" },
    Ready { name: "who-talked-to", sql: include_str!("ready/who-talked-to.sql"), chart: "bytes" },
    Ready { name: "rates", sql: include_str!("ready/rates.sql"), chart: "bits_per_s" },
];

/// Values of `{limit}` and `{address}`.
#[derive(Clone, Copy, Debug)]
pub struct Values {
    /// The most rows.
    pub limit: u64,
    /// The address that the query is about.
    pub address: Option<IpAddr>,
}

impl Ready {
    /// Returns the query with this name.
    pub fn of(name: &str) -> Option<&'static Self> {
        READY.iter().find(|ready| ready.name == name)
    }

    /// Returns whether it needs an address.
    pub fn needs_address(&self) -> bool {
        self.sql.contains("{address}")
    }

    /// Returns the SQL with its values. `None` if it needs an address and has none.
    pub fn filled(&self, values: Values) -> Option<String> {
        let sql = self.sql.replace("{limit}", &values.limit.to_string());
        match (self.needs_address(), values.address) {
            (false, _) => Some(sql),
            (true, Some(address)) => Some(sql.replace("{address}", &address.to_string())),
            (true, None) => None,
        }
    }
}
