use super::*;

#[test]
fn names_are_one_each_and_every_work_but_pipelines_has_somebody() {
    let mut names = names();
    names.sort_unstable();
    let before = names.len();
    names.dedup();
    assert_eq!(names.len(), before);
    for work in Work::ALL {
        let somebody = all().any(|adapter| adapter.works().contains(&work));
        assert_eq!(somebody, work != Work::Pipeline, "{work}");
    }
}

#[test]
fn who_cannot_do_a_work_says_what_it_can() {
    let testpmd = named("testpmd").unwrap();
    let said = can_do(testpmd, Work::Balance).unwrap_err();
    assert_eq!(said, "testpmd does no balance: count, bounce, switch, latency, generate");
    let said = can_do(named("netmap").unwrap(), Work::Count).unwrap_err();
    assert!(said.starts_with("it takes the kernel module netmap"), "{said}");
    assert!(named("snort").is_none());
}
