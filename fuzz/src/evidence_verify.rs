//! Evidence against parties that lied and parties that did not, edited.
//!
//! Input: 255 and any bytes, or which evidence and what is done to it. The guilty are those of `protocol/vectors`; whatever
//! else anybody signed in those rounds and in the rounds of `world` is honest.

use crate::input::{Input, edit};
use chipmunk::ring::backend::Simd;
use panetiere::evidence::{Evidence, Outcome};
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::{AggregatorId, ClientId, EpochDigest, NodeId, ServerId};
use panetiere::wire::{Decode, Encode};
use std::sync::LazyLock;

const VECTORS: &str = include_str!("../../protocol/vectors/v1/evidence.json");

struct World {
    samples: Vec<Vec<u8>>,
    /// Whom evidence may convict: epoch and party.
    guilty: Vec<(EpochDigest, Attribution)>,
}

/// The text between two marks, and what follows the second.
fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<(&'a str, &'a str)> {
    text.split_once(open)?.1.split_once(close)
}

fn party(convicts: &str) -> Attribution {
    let Some((kind, number)) = convicts.split_once(':') else { return Attribution::Nobody };
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    let number = digits.parse().expect("a party has a number");
    match kind.trim_matches(|c: char| !c.is_alphabetic()) {
        "aggregator" => Attribution::Aggregator(AggregatorId(number)),
        "client" => Attribution::Client(ClientId(number.into())),
        "lane" => Attribution::Lane(NodeId(number)),
        "server" => Attribution::Server(ServerId(number)),
        other => panic!("no party: {other}"),
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a digit");
    text.as_bytes().as_chunks::<2>().0.iter().map(|[a, b]| (digit(*a) * 16 + digit(*b)) as u8).collect()
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let mut world = World { samples: Vec::new(), guilty: Vec::new() };
    let mut rest = VECTORS;
    while let Some((convicts, after)) = between(rest, "\"convicts\":", "\"hex\": \"") {
        let (hex, after) = after.split_once('"').expect("the end of a text");
        rest = after;
        let bytes = unhex(hex);
        let evidence = Evidence::from_bytes(&bytes).expect("evidence of the vectors");
        let accused = party(convicts);
        if accused != Attribution::Nobody {
            world.guilty.push((evidence.epoch().digest(), accused));
        }
        let verdict = evidence.verify(Simd::under_test().kernels()).expect("evidence of the vectors");
        assert_eq!(verdict.convicted(), accused);
        world.samples.push(bytes);
    }
    assert!(world.samples.len() > 10 && world.guilty.len() > 8, "the vectors have every kind");
    world.samples.extend(crate::wire::evidence());
    world
});

/// Makes what all inputs share, so that no input is charged for it.
pub fn init() {
    run(&[]);
}

/// One input.
pub fn run(data: &[u8]) {
    let (world, mut input) = (&*WORLD, Input::new(data));
    let bytes = match input.u8() {
        255 => input.rest().to_vec(),
        which => {
            let other = input.below(world.samples.len());
            let sample = &world.samples[usize::from(which) % world.samples.len()];
            edit(sample.clone(), &world.samples[other], &mut input)
        }
    };
    let Ok(evidence) = Evidence::from_bytes(&bytes) else { return };
    assert!(evidence.to_bytes() == bytes, "two encodings");
    let kernels = Simd::under_test().kernels();
    let verdict = evidence.verify(kernels);
    // The parameters are made for each verdict, which takes most of the time.
    if bytes.len() % 16 == 0 {
        assert!(verdict == evidence.verify(kernels), "two verdicts");
    }
    let Ok(verdict) = verdict else { return };
    let convicted = verdict.convicted();
    match &verdict.outcome {
        Outcome::Acquits(reason) => {
            assert_eq!((convicted, reason.attribution()), (Attribution::Nobody, Attribution::Nobody));
        }
        Outcome::Convicts(finding) => {
            assert_eq!(convicted, finding.attribution());
            let known = world.guilty.contains(&(evidence.epoch().digest(), convicted));
            assert!(known, "{convicted:?} is honest: {finding}");
        }
    }
}

pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (which, sample) in (0..).zip(&WORLD.samples) {
        let kind = Evidence::from_bytes(sample).expect("a valid sample").kind().name();
        seeds.push((format!("{kind}-{which}"), vec![which, 0]));
        // A bit of the last hundred bytes, where signatures and ends of bodies are.
        seeds.push((format!("{kind}-{which}-edited"), vec![which, 0, 2, 0x41, 0, 0, 0, 3]));
    }
    seeds
}
