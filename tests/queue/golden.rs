//! Case 21: the golden traces, and the trace generator with other parameters against a model of its own.

use std::num::NonZeroU32;

use alertstream::queue::{Capacity, FairQueue};
use clap::Parser;

use super::fair_queue_trace::{Args, options, told, trace};
use super::model::Model;
use super::*;

fn args(line: &str) -> Args {
    <Args as Parser>::parse_from(std::iter::once("trace").chain(line.split_whitespace()))
}

/// What the example prints, and the words that it emitted, on one line.
fn run_on(queue: &FairQueue<u64, u64>, args: &Args) -> (String, String) {
    let (words, _tickets) = trace(args, queue);
    (told(&words, queue), words.join(" "))
}

fn run(line: &str) -> (String, String) {
    let args = args(line);
    run_on(&options(&args).build(), &args)
}

const A: (&str, &str) = ("--seed 1 --keys 5 --steps 2000", "4715de7c9bc19cf4\n336 213");
const B: (&str, &str) = (
    "--seed 2 --keys 5 --steps 2000 --exclusive-every 8",
    "acadd07c47836852\n580 24",
);
const C: (&str, &str) = (
    "--seed 3 --keys 64 --steps 20000 --exclusive-every 8",
    "e5d7d0017ca21395\n5901 152",
);

#[test]
fn golden_trace_a() {
    let (told, words) = run(A.0);
    assert_eq!(told, A.1);
    assert!(words.starts_with("2:0 0:1 3:3 2:2 1:11 4:12 0:5 3:4"));
    assert_eq!(words.split(' ').count(), 624);
}

#[test]
fn golden_trace_b() {
    let (told, words) = run(B.0);
    assert_eq!(told, B.1);
    assert!(words.starts_with("4:0 3:1 0:2 4:4 3:9 2:5 1:10 2:6"));
    assert_eq!(words.split(' ').filter(|word| *word == "-").count(), 174);
    assert_eq!(words.split(' ').count(), 423 + 174);
}

#[test]
fn golden_trace_c() {
    let (told, words) = run(C.0);
    assert_eq!(told, C.1);
    assert!(words.starts_with("12:0 56:1 16:2 56:4 8:3 - - -"));
    assert_eq!(words.split(' ').filter(|word| *word == "-").count(), 1964);
}

/// Also 66: at weight 1 everywhere the rule is the one without weights.
#[test]
fn settings_that_bound_nothing_change_no_trace() {
    for (line, expected) in [A, B, C] {
        let args = args(line);
        let most = NonZeroU32::new(1_000_000).unwrap();
        let queue: FairQueue<u64, u64> = options(&args)
            .key_limit(most)
            .key_capacity(Capacity::items(1_000_000))
            .total_capacity(Capacity::items(1_000_000))
            .metrics("golden", 3)
            .build();
        for key in 0..args.keys {
            queue.set_weight(&key, NonZeroU32::MIN);
            queue.set_label(&key, Some("all"));
        }
        assert_eq!(run_on(&queue, &args).0, expected);
    }
}

/// The generator once more, straight from the specification's text, over the model of the rule.
fn expected(args: &Args) -> (String, usize, usize) {
    let mut model = Model::new(args.keys as usize);
    let (mut x, mut puts, mut in_progress, mut words) = (args.seed, 0, Vec::<usize>::new(), Vec::new());
    for _ in 0..args.steps {
        x = (u128::from(x) * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) as u64;
        let r = x >> 33;
        let (op, a) = (r % 10, r / 10);
        let clears = args.clear && a.is_multiple_of(97);
        if op < 5 {
            let exclusive = args.exclusive_every > 0 && (a / args.keys).is_multiple_of(args.exclusive_every);
            model.put((a % args.keys) as usize, puts, exclusive);
            puts += 1;
        } else if op < 8 {
            if args.cap.is_some_and(|cap| in_progress.len() >= cap) {
                words.push("#".to_owned());
            } else if let Some((key, item)) = model.get() {
                words.push(format!("{key}:{item}"));
                in_progress.push(key);
            } else {
                words.push("-".to_owned());
            }
        } else if !clears && !in_progress.is_empty() {
            model.done(in_progress.remove(a as usize % in_progress.len()));
        } else if clears {
            words.push(format!("c{}", model.clear((a / 97 % args.keys) as usize)));
        }
    }
    (words.join(" "), model.queued(), in_progress.len())
}

#[test]
fn traces_with_any_parameters_are_those_of_the_model() {
    let mut random = Random(21);
    let mut seen = [false; 4];
    for _ in 0..400 {
        let exclusive = [0, 1, 2, 3, 8][random.below(5) as usize];
        let mut line = format!(
            "--seed {} --keys {} --steps {} --exclusive-every {exclusive}",
            random.next(),
            [1, 2, 3, 7, 64, 1000][random.below(6) as usize],
            random.below(3000),
        );
        if random.below(2) == 0 {
            line += " --clear";
        }
        if random.below(2) == 0 {
            line += &format!(" --cap {}", random.below(6));
        }
        let args = args(&line);
        let queue = options(&args).build();
        let (told, words) = run_on(&queue, &args);
        let (expected, queued, in_progress) = expected(&args);
        assert_eq!(words, expected, "{line}");
        assert_eq!(told.lines().nth(1), Some(&*format!("{queued} {in_progress}")), "{line}");
        for (seen, word) in seen.iter_mut().zip(["#", "-", "c", ":"]) {
            *seen |= words.contains(word);
        }
    }
    assert_eq!(seen, [true; 4], "every kind of word occurs");
}
