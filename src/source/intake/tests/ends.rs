//! Revocation, loss, flush and closing.

use super::*;

#[tokio::test(start_paused = true)]
async fn revocation_waits_for_open_deliveries_and_gives_the_last_commits() {
    let intake = intake();
    intake.open(LANE);
    intake.open(OTHER);
    (0..3).for_each(|seq| intake.give(&LANE, seq));
    intake.give(&OTHER, 0);
    let mut held = intake.take(2).into_iter(); // the third stays in the queue
    let deadline = Instant::now() + Duration::from_secs(5);
    let revoked = intake.revoke(std::slice::from_ref(&LANE), deadline);
    tokio::pin!(revoked);
    assert!(revoked.as_mut().now_or_never().is_none());
    assert_eq!(
        intake.next().unwrap().position().lane,
        OTHER,
        "nothing more of a lane that is being revoked"
    );
    assert!(matches!(intake.try_reserve(&LANE, 1), Reserve::LaneGone));
    held.next().unwrap().ack();
    assert!(revoked.as_mut().now_or_never().is_none());
    held.next().unwrap().release(); // not done, but settled
    let last = revoked.await;
    assert!(Instant::now() < deadline);
    assert_eq!((last.len(), last[0].upto, last[0].sync), (1, 1, true));
    intake.committed(&last);
    assert_eq!(
        intake.budget().used(),
        1000,
        "only the other lane's alert holds bytes: it was dropped, so released"
    );
    pass(1000).await;
    let again = intake.next().unwrap();
    assert_eq!((again.position().lane.clone(), again.attempt()), (OTHER, 2));
}

#[tokio::test(start_paused = true)]
async fn revocation_ends_at_its_deadline() {
    let intake = intake();
    intake.open(LANE);
    intake.give(&LANE, 0);
    let held = intake.next().unwrap();
    let start = Instant::now();
    let (at, last) = after(start, intake.revoke(&[LANE], start + Duration::from_secs(3))).await;
    assert_eq!((at, last.len(), intake.stats().released), (3000, 0, 1));
    held.ack();
    assert_eq!((intake.stats().late, intake.stats().acked), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_lost_lane_frees_its_waiters_and_bytes() {
    let intake = intake_with(bytes_max(1000));
    intake.open(LANE);
    intake.give(&LANE, 0);
    let held = intake.next().unwrap();
    let waiting = tokio::spawn({
        let intake = intake.clone();
        async move { intake.reserve(&LANE, 1000).await.is_some() }
    });
    tokio::task::yield_now().await;
    intake.lose(&[LANE]);
    assert!(!waiting.await.unwrap(), "no permit for a lane that is gone");
    assert_eq!(intake.budget().used(), 0);
    drop(held);
    assert_eq!(intake.stats().late, 1);
}

#[tokio::test(start_paused = true)]
async fn a_delivery_says_when_settling_it_no_longer_counts() {
    let intake = intake();
    intake.open(LANE);
    intake.valid_until(&LANE, Instant::now() + Duration::from_secs(30));
    intake.give(&LANE, 0);
    let held = intake.next().unwrap();
    assert!(held.is_open());
    tokio::time::advance(Duration::from_secs(31)).await;
    assert!(!held.is_open(), "the lease ran out");
    intake.valid_until(&LANE, Instant::now() + Duration::from_secs(30));
    assert!(held.is_open(), "it was renewed");
    intake.lose(&[LANE]);
    assert!(!held.is_open(), "the lane is lost");
}

#[tokio::test(start_paused = true)]
async fn written_is_not_durable_until_something_later_is() {
    let intake = intake();
    intake.open(LANE);
    intake.give(&LANE, 0);
    intake.next().unwrap().ack();
    pass(200).await;
    let batch = intake.due_commits();
    assert!(!batch[0].sync);
    intake.written(&batch);
    let core = intake.core.clone();
    let flush = tokio::spawn(async move { matches!(core.flush().await, Flushed::Durable) });
    let barrier = intake.commits().await.unwrap();
    assert!(barrier.is_empty(), "nothing to write, but something to make durable");
    tokio::task::yield_now().await;
    assert!(!flush.is_finished());
    intake.committed(&barrier);
    assert!(flush.await.unwrap());
    // With nothing unsynced there is nothing to wait for.
    assert!(matches!(intake.core.flush().now_or_never(), Some(Flushed::Durable)));
}

#[tokio::test(start_paused = true)]
async fn a_flush_hurries_the_commits_and_asks_for_durable_ones() {
    let intake = intake();
    intake.open(LANE);
    intake.give(&LANE, 0);
    intake.next().unwrap().ack();
    assert!(intake.due_commits().is_empty(), "not within the first 100 ms");
    let flush = intake.core.flush();
    tokio::pin!(flush);
    assert!(flush.as_mut().now_or_never().is_none());
    let batch = intake.due_commits();
    assert!(batch[0].sync);
    intake.committed(&batch);
    assert!(matches!(flush.await, Flushed::Durable));
}

#[tokio::test(start_paused = true)]
async fn a_flush_tells_of_lost_lanes_once() {
    let intake = intake();
    intake.open(LANE);
    intake.give(&LANE, 0);
    intake.next().unwrap().ack();
    let core = intake.core.clone();
    let flush = tokio::spawn(async move { core.flush().await });
    tokio::task::yield_now().await;
    intake.lose(&[LANE]);
    assert!(matches!(flush.await.unwrap(), Flushed::Lost(1)));
    assert!(matches!(intake.core.flush().await, Flushed::Durable));
}

#[tokio::test(start_paused = true)]
async fn closing_drops_what_was_not_handed_out_and_ends_when_the_rest_is_confirmed() {
    let intake = intake();
    intake.open(LANE);
    (0..3).for_each(|seq| intake.give(&LANE, seq));
    let held = intake.next().unwrap();
    intake.core.close();
    assert!(intake.is_closing() && intake.closing().now_or_never().is_some());
    assert!(matches!(intake.try_reserve(&LANE, 1), Reserve::Closing));
    assert!(intake.next().is_none());
    assert!(!intake.is_drained());
    held.ack();
    let batch = intake.commits().await.unwrap();
    assert_eq!((batch[0].upto, batch[0].sync), (1, true));
    assert!(!intake.is_drained(), "not before the confirmation");
    intake.committed(&batch);
    assert!(intake.is_drained());
    assert!(intake.commits().await.is_none());
    assert_eq!(intake.budget().used(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_open_delivery_holds_the_end_up_until_it_is_given_up() {
    let intake = intake();
    intake.open(LANE);
    intake.give(&LANE, 0);
    let held = intake.next().unwrap();
    intake.core.close();
    let commits = intake.commits();
    tokio::pin!(commits);
    assert!(commits.as_mut().now_or_never().is_none());
    intake.core.abandon();
    assert!(commits.await.is_none());
    held.ack();
    assert_eq!((intake.stats().released, intake.stats().late), (1, 1));
}
