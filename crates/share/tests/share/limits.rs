//! A publisher that runs out of descriptors.

use burstline_share::{AttachConfig, Attachment, Refusal, ShareError, query};

use crate::common::{Directory, Role, read, until};

#[test]
fn without_descriptors_it_serves_those_it_has_and_recovers() {
    // One reader takes three descriptors: whichever of them is one too many, it gets an answer.
    for spare in [6, 7, 8] {
        let directory = Directory::new();
        let name = directory.name("tap");
        let mut role = Role::start("poor_publisher", &[&name, &spare.to_string()]);
        let limit: u64 = role.hear("limit").parse().unwrap();
        let open = || Attachment::open(&name, &AttachConfig::default());
        let mut readers = Vec::new();
        let refused = loop {
            match open() {
                Ok(attachment) => readers.push(attachment),
                Err(error) => break error,
            }
        };
        let is_told = |error: &ShareError| {
            let told = Refusal::Descriptors { limit };
            matches!(error, ShareError::Refused { refusal, .. } if *refusal == told)
        };
        assert!(is_told(&refused), "{refused}");
        assert!((1..=spare / 2).contains(&readers.len()), "{} readers", readers.len());
        for _ in 0..20 {
            let again = open().unwrap_err();
            assert!(is_told(&again), "{again}");
        }
        role.go_on();
        role.hear("written");
        for reader in readers.iter_mut().flat_map(|attachment| &mut attachment.readers) {
            assert_eq!(read(reader), 500);
        }
        readers.pop();
        until("there is room again", || {
            role.go_on();
            open().is_ok()
        });
        until("only those are left", || {
            query(&name).is_ok_and(|status| status.readers.len() == readers.len())
        });
        role.kill();
    }
}
