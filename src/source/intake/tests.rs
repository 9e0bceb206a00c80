//! The intake on a paused clock, driven as a source and a stream would.

// One range is what is meant.
#![allow(clippy::single_range_in_vec_init)]

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;

use super::*;
use crate::delivery::Delivery;

mod ends;
mod runs;

const LANE: Lane = Lane::Memory(0);
const OTHER: Lane = Lane::Memory(1);

fn intake_with(cfg: StreamConfig) -> Intake {
    Intake::new(Core::new(SourceId::new("s"), cfg))
}

fn intake() -> Intake {
    intake_with(StreamConfig::default())
}

fn bytes_max(bytes: usize) -> StreamConfig {
    StreamConfig {
        budget: ByteBudget::new(bytes),
        ..StreamConfig::default()
    }
}

impl Intake {
    fn give(&self, lane: &Lane, seq: u64) {
        let Reserve::Granted(permit) = self.try_reserve(lane, 1000) else {
            panic!("no room for {lane}/{seq}")
        };
        self.deliver(
            permit,
            Position {
                lane: lane.clone(),
                seq,
            },
            RawAlert::from_bytes(vec![0; 1000]),
        );
    }

    fn next(&self) -> Option<Delivery<RawAlert>> {
        let polled = poll_fn(|cx| Poll::Ready(self.core.poll_next(cx.waker()))).now_or_never();
        match polled {
            Some(Ok(Some(Ok(delivery)))) => Some(delivery),
            _ => None,
        }
    }

    fn take(&self, n: usize) -> Vec<Delivery<RawAlert>> {
        (0..n).map(|_| self.next().expect("a delivery")).collect()
    }

    fn stats(&self) -> StreamStats {
        let stats = self.core.stats();
        assert_eq!(
            stats.delivered,
            stats.acked + stats.released + stats.rejected + stats.open,
            "{stats:?}"
        );
        stats
    }
}

async fn pass(ms: u64) {
    tokio::time::advance(Duration::from_millis(ms)).await;
}

/// The millisecond in which something comes.
async fn after<F: Future>(from: Instant, what: F) -> (u128, F::Output) {
    let output = what.await;
    (from.elapsed().as_millis(), output)
}

#[tokio::test(start_paused = true)]
async fn commits_come_after_100_ms_and_then_every_second() {
    let intake = intake();
    let start = Instant::now();
    intake.open(LANE);
    (0..4).for_each(|seq| intake.give(&LANE, seq));
    let mut held = intake.take(4).into_iter();
    held.next().unwrap().ack();
    let (at, batch) = after(start, intake.commits()).await;
    let batch = batch.unwrap();
    assert_eq!((at, batch.len(), batch[0].upto, batch[0].finished), (100, 1, 1, false));
    intake.committed(&batch);
    held.next().unwrap().ack();
    let (at, batch) = after(start, intake.commits()).await;
    assert_eq!((at, batch.as_ref().unwrap()[0].upto), (1100, 2));
    // Not confirmed: it comes again after a second, and tells what settled meanwhile.
    held.next_back().unwrap().ack();
    let (at, batch) = after(start, intake.commits()).await;
    let batch = batch.unwrap();
    assert_eq!(
        (at, batch[0].upto, batch[0].settled_beyond.clone()),
        (2100, 2, vec![3..4])
    );
    intake.committed(&batch);
    assert!(intake.commits().now_or_never().is_none());
    // After a pause the next one does not wait.
    pass(5000).await;
    held.next().unwrap().ack();
    assert_eq!(intake.due_commits()[0].upto, 4);
}

#[tokio::test(start_paused = true)]
async fn a_finished_lane_commits_at_once_and_is_gone_when_confirmed() {
    let intake = intake();
    intake.open(LANE);
    intake.give(&LANE, 7);
    intake.seal(&LANE);
    assert!(intake.due_commits().is_empty());
    intake.next().unwrap().ack();
    let batch = intake.due_commits();
    assert_eq!((batch[0].upto, batch[0].finished), (8, true));
    assert!(matches!(intake.try_reserve(&LANE, 1), Reserve::Granted(_)));
    intake.committed(&batch);
    assert!(matches!(intake.try_reserve(&LANE, 1), Reserve::LaneGone));
    // A lane that is sealed with nothing in it is finished too, and tells where it began.
    intake.open_at(OTHER, 42);
    intake.seal(&OTHER);
    let batch = intake.due_commits();
    assert_eq!((batch[0].upto, batch[0].finished), (42, true));
}

#[tokio::test(start_paused = true)]
async fn a_released_alert_comes_again_after_1_s_doubling_to_60_s() {
    let intake = intake();
    intake.open(LANE);
    intake.give(&LANE, 0);
    let mut delivery = intake.next().unwrap();
    for (attempt, seconds) in (1..).zip([1, 2, 4, 8, 16, 32, 60, 60]) {
        assert_eq!(delivery.attempt(), attempt);
        delivery.release();
        pass(seconds * 1000 - 1).await;
        assert!(intake.next().is_none(), "not before {seconds} s");
        pass(1).await;
        delivery = intake.next().expect("again");
    }
    assert_eq!((intake.stats().redelivered, intake.stats().released), (8, 8));
    delivery.ack();
    assert_eq!(intake.budget().used(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_release_is_never_passed() {
    let intake = intake();
    intake.open(LANE);
    (0..3).for_each(|seq| intake.give(&LANE, seq));
    let mut held = intake.take(3).into_iter();
    held.next().unwrap().release();
    held.for_each(|delivery| delivery.ack());
    pass(500).await;
    let batch = intake.due_commits();
    assert_eq!((batch[0].upto, batch[0].settled_beyond.clone()), (0, vec![1..3]));
}

#[tokio::test(start_paused = true)]
async fn a_rejected_alert_keeps_its_bytes_until_its_commit_is_confirmed() {
    let intake = intake_with(bytes_max(2000));
    intake.open(LANE);
    (0..2).for_each(|seq| intake.give(&LANE, seq));
    let mut held = intake.take(2).into_iter();
    held.next().unwrap().reject("bad");
    pass(200).await;
    let first = intake.due_commits();
    assert_eq!(
        (first[0].rejected.len(), first[0].sync, intake.budget().used()),
        (1, true, 2000)
    );
    held.next().unwrap().reject("bad too");
    pass(1000).await;
    let second = intake.due_commits();
    assert_eq!(second[0].rejected.len(), 2, "the first was not confirmed");
    intake.committed(&first);
    assert_eq!(intake.budget().used(), 1000);
    assert!(matches!(intake.try_reserve(&LANE, 1500), Reserve::Full));
    intake.committed(&second);
    assert_eq!(intake.budget().used(), 0);
    let letter = &second[0].rejected[1];
    assert_eq!(
        (letter.position.seq, letter.attempt, letter.why.reason.as_ref()),
        (1, 1, "rejected")
    );
}

#[tokio::test(start_paused = true)]
async fn settlements_of_a_former_epoch_are_counted_and_change_nothing() {
    let intake = intake();
    let first = intake.open(LANE);
    (0..2).for_each(|seq| intake.give(&LANE, seq));
    let old = intake.take(2);
    let second = intake.open(LANE);
    assert!(second > first);
    assert_eq!((intake.stats().released, intake.stats().open), (2, 0));
    (0..2).for_each(|seq| intake.give(&LANE, seq));
    let new = intake.take(2);
    old.into_iter().for_each(|delivery| delivery.ack());
    pass(2000).await;
    assert!(intake.due_commits().is_empty(), "nothing of the new epoch settled");
    new.into_iter().for_each(|delivery| delivery.ack());
    assert_eq!(intake.due_commits()[0].epoch, second);
    assert_eq!((intake.stats().late, intake.stats().acked), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_full_span_stops_its_lane_alone() {
    let intake = intake_with(StreamConfig {
        max_span: 2,
        ..StreamConfig::default()
    });
    intake.open(LANE);
    intake.open(OTHER);
    (0..2).for_each(|seq| intake.give(&LANE, seq));
    assert!(matches!(intake.try_reserve(&LANE, 1), Reserve::LaneFull));
    assert_eq!((intake.lane_room(&LANE), intake.lane_room(&OTHER)), (0, 2));
    intake.give(&OTHER, 0);
    let mut held = intake.take(3).into_iter();
    let (first, second) = (held.next().unwrap(), held.next().unwrap());
    second.ack();
    assert!(
        matches!(intake.try_reserve(&LANE, 1), Reserve::LaneFull),
        "settled behind a stuck one still counts"
    );
    let waiting = intake.reserve(&LANE, 1);
    tokio::pin!(waiting);
    assert!(waiting.as_mut().now_or_never().is_none());
    first.ack();
    assert!(waiting.await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_full_source_stands_still_alone_and_a_shared_budget_bounds_both() {
    let (a, b) = (intake_with(bytes_max(1000)), intake_with(bytes_max(1000)));
    a.open(LANE);
    b.open(LANE);
    a.give(&LANE, 0);
    assert!(matches!(a.try_reserve(&LANE, 1), Reserve::Full));
    b.give(&LANE, 0);

    let budget = ByteBudget::new(1000);
    let shared = || {
        intake_with(StreamConfig {
            budget: budget.clone(),
            ..StreamConfig::default()
        })
    };
    let (a, b) = (shared(), shared());
    a.open(LANE);
    b.open(LANE);
    a.give(&LANE, 0);
    let waiting = b.reserve(&LANE, 1000);
    tokio::pin!(waiting);
    assert!(waiting.as_mut().now_or_never().is_none());
    a.next().unwrap().ack();
    assert!(waiting.await.is_some(), "one stream's settlement lets the other go on");
}

#[tokio::test(start_paused = true)]
async fn settled_waits_for_the_whole_lane() {
    let intake = intake();
    intake.open(LANE);
    (0..2).for_each(|seq| intake.give(&LANE, seq));
    let settled = intake.settled(&LANE);
    tokio::pin!(settled);
    let mut held = intake.take(2).into_iter();
    held.next().unwrap().ack();
    held.next().unwrap().release();
    assert!(
        settled.as_mut().now_or_never().is_none(),
        "a released alert is not settled"
    );
    pass(1000).await;
    intake.next().unwrap().ack();
    settled.await;
    assert_eq!((intake.settled_count().0, intake.unsettled(&LANE)), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_seq_out_of_order_ends_the_stream_with_an_error() {
    let intake = intake();
    intake.open(LANE);
    intake.give(&LANE, 5);
    intake.give(&LANE, 5);
    assert!(intake.is_closing());
    let polled = poll_fn(|cx| Poll::Ready(intake.core.poll_next(cx.waker()))).await;
    assert!(matches!(polled, Ok(Some(Err(error))) if error.to_string().contains("`5`")));
}

#[tokio::test(start_paused = true)]
async fn positions_without_an_alert_are_passed_over() {
    let intake = intake();
    intake.open_at(LANE, 10);
    intake.pass(&Position { lane: LANE, seq: 10 });
    intake.give(&LANE, 11);
    pass(100).await;
    let batch = intake.due_commits();
    assert_eq!(
        (batch[0].upto, intake.stats().passed, intake.stats().delivered),
        (11, 1, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_source_rejects_takes_its_place_and_is_seen_by_nobody() {
    let intake = intake();
    intake.open(LANE);
    let Reserve::Granted(permit) = intake.try_reserve(&LANE, 0) else {
        panic!("room")
    };
    let why = Rejection::new("unreadable", "no");
    intake.deliver_rejected(permit, Position { lane: LANE, seq: 0 }, RawAlert::from_bytes(""), why);
    intake.give(&LANE, 1);
    let commits = intake.commits();
    tokio::pin!(commits);
    assert!(commits.as_mut().now_or_never().is_none());
    assert_eq!(intake.next().unwrap().position().seq, 1);
    let batch = commits.await.unwrap();
    assert_eq!(
        (batch[0].upto, batch[0].rejected.len(), intake.stats().rejected),
        (1, 1, 1)
    );
}

#[tokio::test]
async fn settlements_from_many_threads_all_count() {
    let intake = intake_with(StreamConfig {
        max_span: 100_000,
        ..bytes_max(1 << 30)
    });
    intake.open(LANE);
    (0..20_000).for_each(|seq| intake.give(&LANE, seq));
    let mut threads = Vec::new();
    for n in 0..8 {
        let part = intake.take(2500);
        threads.push(std::thread::spawn(move || {
            for (i, delivery) in part.into_iter().enumerate() {
                if (i + n) % 7 == 0 {
                    delivery.reject("bad")
                } else {
                    delivery.ack()
                }
            }
        }));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    intake.seal(&LANE);
    let batch = intake.commits().await.unwrap();
    assert_eq!((batch[0].upto, batch[0].finished), (20_000, true));
    assert_eq!(batch[0].rejected.len() as u64, intake.stats().rejected);
    intake.committed(&batch);
    assert_eq!((intake.budget().used(), intake.stats().open), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_is_set_aside_stops_its_lane_and_leaves_the_budget_to_the_others() {
    let intake = intake_with(StreamConfig {
        stall_after: Some(Duration::from_secs(60)),
        ..bytes_max(2000)
    });
    intake.open(LANE);
    intake.open(OTHER);
    intake.give(&LANE, 0);
    intake.give(&LANE, 1);
    assert!(matches!(intake.try_reserve(&OTHER, 1000), Reserve::Full));
    let waits = intake.take(2);
    waits.iter().for_each(Delivery::set_aside);
    assert_eq!((intake.budget().used(), intake.lane_room(&LANE)), (0, 0));
    assert!(matches!(intake.try_reserve(&LANE, 1000), Reserve::LaneFull));
    pass(120_000).await;
    assert_eq!(intake.core.stalled(), None, "waiting is no stall");
    intake.give(&OTHER, 0);
    intake.next().unwrap().ack();
    let blocked = tokio::spawn({
        let intake = intake.clone();
        async move { intake.reserve(&LANE, 1000).await.is_some() }
    });
    waits.iter().for_each(Delivery::take_up);
    assert!(blocked.await.unwrap(), "the lane goes on");
    waits.into_iter().for_each(Delivery::ack);
    assert_eq!((intake.budget().used(), intake.stats().acked), (0, 3));
}

#[tokio::test(start_paused = true)]
async fn a_revocation_does_not_wait_for_what_is_set_aside() {
    let intake = intake();
    intake.open(LANE);
    intake.give(&LANE, 0);
    let waits = intake.next().unwrap();
    waits.set_aside();
    let start = Instant::now();
    let (at, last) = after(start, intake.revoke(&[LANE], start + Duration::from_secs(20))).await;
    assert_eq!((at, last.len(), intake.stats().released), (0, 0, 1));
    assert!(!waits.is_open());
}
