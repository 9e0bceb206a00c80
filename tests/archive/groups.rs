//! Groups against a real Postgres: create, build, claim, acknowledge, show, administration.

use std::time::Duration;

use alertstream::archive::groups::{
    Acknowledged, BlockState, BuildStep, Claim, Durability, Group, GroupError, GroupState, GroupStatus, Groups,
    Liveness, Outcome, Session, SessionTimes, Standing,
};
use alertstream::query::{NightStart, Query, QueryText};
use uuid::Uuid;

use crate::common::TestDb;
use crate::filled::{fill, fill_sql};

pub(crate) struct Fixture {
    pub(crate) db: TestDb,
    pub(crate) groups: Groups,
    pub(crate) pool: sqlx::PgPool,
}

impl Fixture {
    pub(crate) async fn with(alerts: i64) -> Self {
        let db = TestDb::new().await;
        let pool = db.pool().await;
        fill(&pool, alerts).await;
        let groups = Groups::new(&db.archive().await);
        Self { db, groups, pool }
    }

    pub(crate) async fn built(&self, name: &str, query: &Query, block_size: u32) -> Group {
        let group = self.groups.join_or_create(name, Some(query), block_size).await.unwrap();
        build(&self.groups, &group).await;
        group
    }

    pub(crate) async fn session(&self, group: &Group) -> Session {
        self.groups
            .session(group, Liveness::Lock, SessionTimes::default())
            .await
            .unwrap()
    }
}

pub(crate) fn query(parts: &[(&str, &str)]) -> Query {
    let text = parts
        .iter()
        .fold(QueryText::new(), |text, (key, value)| text.with(key, *value).unwrap());
    Query::parse(&text, NightStart::default()).unwrap()
}

pub(crate) async fn build(groups: &Groups, group: &Group) {
    while groups.build_step(group).await.unwrap() != BuildStep::Built {}
}

/// The identities of rule 4.
pub(crate) fn assert_balanced(status: &GroupStatus) {
    let (a, b) = (status.alerts, status.blocks);
    assert_eq!(
        a.total,
        a.acknowledged + a.in_progress + a.remaining + a.dead + a.missing,
        "{a:?}"
    );
    assert_eq!(b.total, b.free + b.claimed + b.done, "{b:?}");
    assert!(
        a.acknowledged >= 0 && a.in_progress >= 0 && a.remaining >= 0 && b.free >= 0,
        "{a:?} {b:?}"
    );
}

pub(crate) fn state_of(claim: &Claim) -> BlockState {
    BlockState {
        id: claim.id,
        generation: claim.generation,
        block_seq: claim.block_seq,
        lease: claim.lease,
        done: claim.done.clone(),
        dead: claim.dead,
        missing: claim.missing,
        trying: None,
    }
}

pub(crate) fn finished(claim: &Claim) -> BlockState {
    let mut state = state_of(claim);
    state.done.set_range(0..claim.ids.len());
    state
}

async fn claim(session: &mut Session) -> Option<Claim> {
    session.claim(Uuid::new_v4()).await.unwrap()
}

async fn drain(session: &mut Session) -> Vec<Vec<i64>> {
    let mut all = Vec::new();
    let mut next = claim(session).await;
    while let Some(held) = next {
        let (done, then) = session
            .acknowledge_and_claim(&finished(&held), Uuid::new_v4())
            .await
            .unwrap();
        assert_eq!(done, Acknowledged::Done);
        all.push(held.ids);
        next = then;
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_of_three_alert_ids_has_two_blocks_and_is_then_exhausted() {
    let f = Fixture::with(10).await;
    let group = f.built("g", &query(&[("candid", "2,5,9")]), 2).await;
    let ready = f.groups.show("g").await.unwrap();
    assert_eq!((ready.blocks.total, ready.alerts.total), (2, 3));
    assert_eq!(ready.state, GroupState::Ready);
    let mut session = f.session(&group).await;
    let blocks = drain(&mut session).await;
    assert_eq!(blocks.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(session.standing().await.unwrap(), Standing::Ended);
    let end = f.groups.show("g").await.unwrap();
    assert_balanced(&end);
    assert_eq!(
        (end.state, end.alerts.acknowledged, end.blocks.done),
        (GroupState::Exhausted, 3, 2)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_name_with_another_query_is_an_error_that_shows_both() {
    let f = Fixture::with(3).await;
    f.built("g", &query(&[("candid", "1,2")]), 2).await;
    let error = f
        .groups
        .join_or_create("g", Some(&query(&[("limit", "77")])), 2)
        .await
        .unwrap_err();
    assert!(matches!(error, GroupError::OtherQuery { .. }));
    let text = error.to_string();
    assert!(
        text.contains("77") && text.contains("limit") && text.contains("candid"),
        "{text}"
    );
    assert_eq!(f.groups.show("g").await.unwrap().generation, 1);
    assert!(f.groups.join_or_create("g", None, 9).await.unwrap().block_size == 2);
    assert!(matches!(
        f.groups.join_or_create("h", None, 9).await,
        Err(GroupError::Unknown { .. })
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_matches_nothing_is_ready_and_ends() {
    let f = Fixture::with(5).await;
    let group = f.built("g", &query(&[("candid", "99")]), 2).await;
    let status = f.groups.show("g").await.unwrap();
    assert_eq!(
        (status.state, status.total_final, status.alerts.total),
        (GroupState::Ready, true, 0)
    );
    assert_eq!(f.session(&group).await.standing().await.unwrap(), Standing::Ended);
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_are_in_time_order_and_the_same_every_time() {
    let f = Fixture::with(25_000).await;
    let group = f.built("a", &Query::all(), 500).await;
    let blocks = drain(&mut f.session(&group).await).await;
    let again = f.built("b", &Query::all(), 500).await;
    assert_eq!(drain(&mut f.session(&again).await).await, blocks);
    let order: Vec<i64> = sqlx::query_scalar("SELECT id FROM alert ORDER BY jd, id")
        .fetch_all(&f.pool)
        .await
        .unwrap();
    assert_eq!(blocks.concat(), order);
    let status = f.groups.show("a").await.unwrap();
    assert_balanced(&status);
    assert_eq!(status.alerts.acknowledged, 25_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn slices_partition_the_set() {
    let f = Fixture::with(23_000).await;
    let mut all = Vec::new();
    for k in 0..4 {
        let group = f
            .built(&format!("g{k}"), &query(&[("every", &format!("4/{k}"))]), 700)
            .await;
        all.extend(drain(&mut f.session(&group).await).await.concat());
    }
    assert_eq!(all.len(), 23_000);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 23_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn latest_per_object_and_limit_are_built_as_asked() {
    let f = Fixture::with(5_000).await;
    let latest = f.built("latest", &query(&[("latest_per_object", "true")]), 100).await;
    let mut got = drain(&mut f.session(&latest).await).await.concat();
    let mut want: Vec<i64> =
        sqlx::query_scalar("SELECT DISTINCT ON (object_id) id FROM alert ORDER BY object_id, jd DESC, id DESC")
            .fetch_all(&f.pool)
            .await
            .unwrap();
    got.sort_unstable();
    want.sort_unstable();
    assert_eq!(got, want);
    let limited = f
        .built("limited", &query(&[("limit", "7"), ("every", "3/1")]), 100)
        .await;
    let ids = drain(&mut f.session(&limited).await).await.concat();
    let order: Vec<i64> =
        sqlx::query_scalar("SELECT id FROM (SELECT id, row_number() OVER (ORDER BY jd, id) - 1 AS r FROM alert) a WHERE r % 3 = 1 ORDER BY r LIMIT 7")
            .fetch_all(&f.pool)
            .await
            .unwrap();
    assert_eq!(ids, order);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_commits_after_creation_is_not_in_the_group_and_what_was_committed_is() {
    let f = Fixture::with(0).await;
    let mut open = f.pool.begin().await.unwrap();
    sqlx::query(fill_sql())
        .bind(1_i64)
        .bind(4_i64)
        .execute(&mut *open)
        .await
        .unwrap();
    // A younger transaction that commits before the group is made.
    sqlx::query(fill_sql())
        .bind(5_i64)
        .bind(6_i64)
        .execute(&f.pool)
        .await
        .unwrap();
    let group = f.groups.join_or_create("g", Some(&Query::all()), 2).await.unwrap();
    open.commit().await.unwrap();
    sqlx::query(fill_sql())
        .bind(7_i64)
        .bind(9_i64)
        .execute(&f.pool)
        .await
        .unwrap();
    build(&f.groups, &group).await;
    let alerts: Vec<i64> = sqlx::query_scalar(
        "SELECT a.alert_id FROM claim_block b CROSS JOIN unnest(b.ids) i JOIN alert a ON a.id = i ORDER BY 1",
    )
    .fetch_all(&f.pool)
    .await
    .unwrap();
    assert_eq!(alerts, [5, 6]);
    f.groups.rewind("g").await.unwrap();
    build(&f.groups, &group).await;
    assert_eq!(f.groups.show("g").await.unwrap().alerts.total, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_acknowledgement_changes_nothing_and_a_repeated_one_is_a_success() {
    let f = Fixture::with(4).await;
    let group = f.built("g", &Query::all(), 2).await;
    let (mut one, mut two) = (f.session(&group).await, f.session(&group).await);
    let held = claim(&mut one).await.unwrap();
    let mut state = state_of(&held);
    state.done.set(0);
    let given = one
        .commit(&state, Outcome::GivenBack, &[], Durability::Now)
        .await
        .unwrap();
    assert_eq!(given, Outcome::GivenBack);
    // Another consumer has it at its next look, with the progress that was made.
    let taken = claim(&mut two).await.unwrap();
    assert_eq!((taken.id, taken.done.count(), taken.barren), (held.id, 1, 1));
    let before = f.groups.show("g").await.unwrap();
    let late = one
        .commit(&finished(&held), Outcome::Done, &[], Durability::Soon)
        .await
        .unwrap();
    assert_eq!(late, Outcome::Lost);
    let (late, next) = one
        .acknowledge_and_claim(&finished(&held), Uuid::new_v4())
        .await
        .unwrap();
    assert_eq!(late, Acknowledged::Late);
    let late = one
        .commit(&finished(&held), Outcome::Kept, &[], Durability::Now)
        .await
        .unwrap();
    assert_eq!(late, Outcome::Lost);
    one.commit(&state_of(&next.unwrap()), Outcome::GivenBack, &[], Durability::Soon)
        .await
        .unwrap();
    let after = f.groups.show("g").await.unwrap();
    assert_eq!(before.alerts, after.alerts);
    assert_balanced(&after);
    for _ in 0..2 {
        let done = two
            .commit(&finished(&taken), Outcome::Done, &[], Durability::Soon)
            .await
            .unwrap();
        assert_eq!(done, Outcome::Done);
    }
    assert_eq!(two.find(taken.lease).await.unwrap().map(|c| c.id), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_answer_was_lost_is_found_by_its_lease_after_reconnecting() {
    let f = Fixture::with(4).await;
    let group = f.built("g", &Query::all(), 2).await;
    let mut session = f.session(&group).await;
    let held = claim(&mut session).await.unwrap();
    let former = session.owner();
    sqlx::query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'alertstream g%' AND datname = current_database()")
        .execute(&f.pool)
        .await
        .unwrap();
    assert!(session.claim(Uuid::new_v4()).await.is_err());
    let kept = session.reconnect(&[held.lease, Uuid::new_v4()]).await.unwrap();
    assert_eq!(kept, [held.lease]);
    assert_ne!(session.owner(), former);
    assert_eq!(session.find(held.lease).await.unwrap().unwrap().id, held.id);
    let members = f.groups.show("g").await.unwrap().members;
    assert_eq!(members.len(), 1);
    assert_eq!((members[0].id, members[0].claimed_blocks), (session.owner(), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewind_makes_a_new_generation_and_former_owners_find_their_blocks_lost() {
    let f = Fixture::with(10).await;
    let group = f.built("g", &Query::all(), 2).await;
    let mut session = f.session(&group).await;
    let first = claim(&mut session).await.unwrap();
    session
        .commit(&finished(&first), Outcome::Done, &[], Durability::Soon)
        .await
        .unwrap();
    let held = claim(&mut session).await.unwrap();
    sqlx::query("DELETE FROM alert WHERE alert_id = 10")
        .execute(&f.pool)
        .await
        .unwrap();
    f.groups.rewind("g").await.unwrap();
    let late = session
        .commit(&finished(&held), Outcome::Done, &[], Durability::Soon)
        .await
        .unwrap();
    assert_eq!(late, Outcome::Lost);
    assert_eq!(session.standing().await.unwrap(), Standing::Building);
    build(&f.groups, &group).await;
    let status = f.groups.show("g").await.unwrap();
    assert_eq!(
        (status.generation, status.alerts.total, status.alerts.acknowledged),
        (2, 9, 0)
    );
    assert_eq!(drain(&mut session).await.concat().len(), 9);
    assert_balanced(&f.groups.show("g").await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_group_gives_no_claim_and_a_deleted_one_says_so() {
    let f = Fixture::with(10).await;
    let group = f.built("g", &Query::all(), 2).await;
    let mut session = f.session(&group).await;
    let held = claim(&mut session).await.unwrap();
    f.groups.pause("g").await.unwrap();
    assert!(claim(&mut session).await.is_none());
    assert!(matches!(session.standing().await.unwrap(), Standing::Halted(_)));
    let done = session
        .commit(&finished(&held), Outcome::Done, &[], Durability::Soon)
        .await
        .unwrap();
    assert_eq!(done, Outcome::Done);
    assert_eq!(f.groups.show("g").await.unwrap().state, GroupState::Paused);
    f.groups.resume("g").await.unwrap();
    let held = claim(&mut session).await.unwrap();
    f.groups.delete("g").await.unwrap();
    assert_eq!(session.standing().await.unwrap(), Standing::Deleted);
    let late = session
        .commit(&finished(&held), Outcome::Done, &[], Durability::Soon)
        .await
        .unwrap();
    assert_eq!(late, Outcome::Lost);
    let left: i64 = sqlx::query_scalar("SELECT (SELECT count(*) FROM claim_block) + (SELECT count(*) FROM block_done)")
        .fetch_one(&f.pool)
        .await
        .unwrap();
    assert_eq!(left, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_group_is_neither_paused_nor_resumed_and_the_error_says_why() {
    let f = Fixture::with(10).await;
    let group = f.built("g", &Query::all(), 2).await;
    f.groups.fail(&group, "the disk is full").await.unwrap();
    for steered in [f.groups.pause("g").await, f.groups.resume("g").await] {
        let error = steered.unwrap_err();
        assert!(matches!(error, GroupError::Halted { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("the disk is full") && text.contains("group rewind g"),
            "{text}"
        );
    }
    assert_eq!(f.groups.show("g").await.unwrap().state, GroupState::Failed);
    f.groups.rewind("g").await.unwrap();
    f.groups.pause("g").await.unwrap();
    f.groups.pause("g").await.unwrap();
    assert_eq!(f.groups.show("g").await.unwrap().state, GroupState::Paused);
    f.groups.resume("g").await.unwrap();
    f.groups.resume("g").await.unwrap();
    assert!(matches!(f.groups.pause("h").await, Err(GroupError::Unknown { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_expires_only_when_asked_and_unused() {
    let f = Fixture::with(4).await;
    let group = f.built("g", &Query::all(), 2).await;
    f.built("h", &Query::all(), 2).await;
    f.groups.expire_after("g", Some(Duration::from_secs(60))).await.unwrap();
    let mut session = f.session(&group).await;
    let held = claim(&mut session).await.unwrap();
    sqlx::query("UPDATE consumer_group SET last_active_at = now() - interval '1 hour'")
        .execute(&f.pool)
        .await
        .unwrap();
    assert_eq!(
        f.groups.show("g").await.unwrap().state,
        GroupState::Ready,
        "a live claim keeps it"
    );
    session
        .commit(&state_of(&held), Outcome::GivenBack, &[], Durability::Soon)
        .await
        .unwrap();
    let states: Vec<GroupState> = f.groups.list().await.unwrap().iter().map(|s| s.state).collect();
    assert_eq!(states, [GroupState::Expired, GroupState::Ready]);
    f.groups.resume("g").await.unwrap();
    assert_eq!(f.groups.show("g").await.unwrap().state, GroupState::Ready);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seek_begins_at_a_block_and_what_is_before_it_counts_as_done() {
    let f = Fixture::with(10).await;
    let group = f.built("g", &Query::all(), 2).await;
    let blocks = drain(&mut f.session(&group).await).await;
    f.groups.seek("g", 3).await.unwrap();
    build(&f.groups, &group).await;
    let status = f.groups.show("g").await.unwrap();
    assert_balanced(&status);
    assert_eq!((status.alerts.acknowledged, status.alerts.remaining), (6, 4));
    assert_eq!(drain(&mut f.session(&group).await).await, blocks[3..]);
}
