//! Matches names against patterns: `*` matches any characters, `?` matches one.

/// Returns whether `pattern` matches all of `name`. Cost: one pass and a step back per `*`.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Where to resume when the last `*` has to match one more character.
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, n));
                p += 1;
            }
            Some(&wanted) if wanted == b'?' || wanted == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((after, taken)) = retry else { return false };
                retry = Some((after, taken + 1));
                (p, n) = (after, taken + 1);
            }
        }
    }
    pattern[p..].iter().all(|&rest| rest == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name) in [
            ("*", ""),
            ("*", "handoff-60"),
            ("handoff*", "handoff-60-lean"),
            ("*-60-*n", "handoff-60-lean"),
            ("hand???-60", "handoff-60"),
            ("**a*b", "aab"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "a"),
            ("handoff", "handoff-60"),
            ("*-60", "handoff-1514"),
            ("?", ""),
            ("a*b", "abc"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
