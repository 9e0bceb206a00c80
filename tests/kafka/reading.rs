//! Reading to an end, resuming at the commit, order within a partition.

use std::time::Duration;

use super::broker::{Broker, bounded, drain, fresh, stream};

async fn reads_all_and_resumes(broker: &Broker) {
    let topic = broker.topic(4).await;
    broker.fill(&topic, 4, 0..50).await;
    let group = fresh("group");
    let (mut alerts, control) = stream(&group, bounded(broker.config(&[&topic])));
    let mut seen = drain(&mut alerts).await;
    control.shutdown(Duration::from_secs(10)).await.unwrap();
    for partition in 0..4 {
        let own = seen
            .iter()
            .filter(|text| text.starts_with(&format!("{partition}:")))
            .cloned()
            .collect::<Vec<_>>();
        assert_eq!(
            own,
            (0..50)
                .map(|number| format!("{partition}:{number}"))
                .collect::<Vec<_>>()
        );
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 200);
    assert_eq!(broker.committed(&group, &topic, 4), [50; 4]);

    broker.fill(&topic, 4, 50..60).await;
    let (mut alerts, control) = stream(&group, bounded(broker.config(&[&topic])));
    assert_eq!(drain(&mut alerts).await.len(), 40);
    control.shutdown(Duration::from_secs(10)).await.unwrap();
    assert_eq!(broker.committed(&group, &topic, 4), [60; 4]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bounded_read_gives_everything_once_and_the_next_one_goes_on() {
    reads_all_and_resumes(&Broker::mock()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bounded_read_gives_everything_once_and_the_next_one_goes_on_real() {
    if let Some(broker) = Broker::real("a_bounded_read_gives_everything_once_and_the_next_one_goes_on_real") {
        reads_all_and_resumes(&broker).await;
    }
}
