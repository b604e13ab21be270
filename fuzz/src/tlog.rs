//! Texts, tiles, bundles and proofs of the log.
//!
//! Input: 0 and any text, or an edited valid one, for every parser; 1 for tiles and bundles; 2 for proofs of inclusion,
//! 3 for proofs of consistency, each in a log that was made at the start.

use crate::input::{Input, edit};
use allocation_counter::measure;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::LazyLock;
use tlog::checkpoint::{Checkpoint, Log, Origin, TreeHead};
use tlog::entry;
use tlog::key::{Cosigner, KeyName, NoteSigner, VerifierKey};
use tlog::merkle::{
    self, Edge, consistency_proof, inclusion_path, leaf_hash, verify_consistency, verify_inclusion,
};
use tlog::note::{Note, Signature};
use tlog::proof::Proof;
use tlog::quorum::Quorum;
use tlog::tile::{Bundle, Resource, Tile};
use tlog::witness::{self, Request, parse_size_body};

const ORIGIN: &str = "log.example/ä";

/// Leaves of the log: five whole tiles of level 0 are not, but several partial subtrees are.
const SIZE: usize = 300;

struct World {
    leaves: Vec<[u8; 32]>,
    key: NoteSigner,
    log: Log,
    quorum: Quorum,
    texts: Vec<Vec<u8>>,
}

fn entry_of(index: usize) -> Vec<u8> {
    format!("entry {index}").into_bytes()
}

impl World {
    fn head(&self, size: usize) -> TreeHead {
        TreeHead { size: size as u64, root: merkle::root(&self.leaves[..size]) }
    }

    fn note(&self, size: usize) -> Note {
        let checkpoint = Checkpoint::new(ORIGIN.parse().expect("a name"), self.head(size));
        checkpoint.expect("a small tree").sign(&self.key).expect("a key with the log's name")
    }
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let leaves: Vec<_> = (0..SIZE).map(|index| leaf_hash(&entry_of(index))).collect();
    let key = NoteSigner::from_seed(ORIGIN.parse().expect("a name"), &[1; 32]);
    let log = Log::new(ORIGIN.parse().expect("a name"), vec![key.verifier().clone()]).expect("its own key");
    let cosigners: Vec<Cosigner> = (0..3u8)
        .map(|n| Cosigner::from_seed(format!("witness{n}.example").parse().expect("a name"), &[n + 2; 32]))
        .collect();
    let witnesses = cosigners.iter().map(|key| key.verifier().clone()).collect();
    let quorum = Quorum::new(log.clone(), witnesses, 0).expect("three witnesses");
    let mut world = World { leaves, key, log, quorum, texts: Vec::new() };
    let checkpoint = Checkpoint::new(ORIGIN.parse().expect("a name"), world.head(200)).expect("a small tree");
    let extended = checkpoint.clone().with_extensions(vec!["an extension".to_owned()]).expect("a line");
    let mut cosigned = extended.sign(&world.key).expect("a key with the log's name");
    let request = Request::new(0, vec![], cosigned.clone()).expect("a checkpoint");
    let accepted = witness::check(&world.log, None, &request).expect("a first checkpoint");
    for cosigner in &cosigners {
        let line = accepted.cosign(cosigner, 1_700_000_000).expect("a time in range");
        cosigned.add(line).expect("room for three");
    }
    let path = inclusion_path(&world.leaves[..200], 7);
    let proof = Proof::new(7, path, cosigned.clone()).expect("a short path");
    let consistency = consistency_proof(&world.leaves[..200], 70).expect("70 of 200");
    let request = Request::new(70, consistency, world.note(200)).expect("a checkpoint");
    world.texts = [
        cosigned.to_string(),
        proof.to_string(),
        proof.clone().with_extra(vec![5; 5]).to_string(),
        request.to_string(),
        "70123\n".to_owned(),
        extended.to_string(),
        checkpoint.to_string(),
        world.key.verifier().to_string(),
        cosigners[0].verifier().to_string(),
        world.key.to_secret_text().to_string(),
        cosigners[0].to_secret_text().to_string(),
        "tile/1/x001/x234/067.p/12".to_owned(),
        "tile/entries/x001/x234/067".to_owned(),
        "tile/0/000".to_owned(),
        cosigned.signatures()[0].to_string(),
        ORIGIN.to_owned(),
    ]
    .map(String::into_bytes)
    .into();
    world
});

/// What is read back from a value of a type whose text form is its `Display`.
fn text<T: FromStr + Display>(text: &str) -> Option<String> {
    text.parse::<T>().ok().map(|value| value.to_string())
}

/// Every parser takes exactly what its type writes, and holds no more than the input deserves.
fn texts(bytes: &[u8]) {
    let holds = |parser: &str, parse: &dyn Fn() -> Option<String>| {
        let mut spelt = None;
        let held = measure(|| spelt = parse()).bytes_max;
        // A copy of the text, what was decoded, what is written, a message that quotes.
        assert!(held <= 6 * bytes.len() as u64 + 50_000, "{parser}: {held} bytes for {}", bytes.len());
        assert!(spelt.is_none_or(|spelt| spelt.as_bytes() == bytes), "{parser}: two spellings");
    };
    holds("note", &|| Note::parse(bytes).ok().map(|value| value.to_string()));
    holds("proof", &|| Proof::parse(bytes).ok().map(|value| value.to_string()));
    holds("request", &|| Request::parse(bytes).ok().map(|value| value.to_string()));
    holds("size", &|| parse_size_body(bytes).map(|value| format!("{value}\n")));
    let Ok(input) = str::from_utf8(bytes) else { return };
    holds("checkpoint", &|| text::<Checkpoint>(input));
    holds("key", &|| text::<VerifierKey>(input));
    holds("name", &|| text::<KeyName>(input));
    holds("origin", &|| text::<Origin>(input));
    holds("resource", &|| text::<Resource>(input));
    holds("signer", &|| NoteSigner::from_secret_text(input).ok().map(|key| key.to_secret_text().to_string()));
    holds("cosigner", &|| Cosigner::from_secret_text(input).ok().map(|key| key.to_secret_text().to_string()));
    holds("lines", &|| {
        Signature::parse_lines(input).ok().map(|lines| lines.iter().map(Signature::to_string).collect())
    });
    signed(bytes);
}

/// What the log's keys say of edited texts: nothing but what they signed.
fn signed(bytes: &[u8]) {
    let world = &*WORLD;
    if let Ok(note) = Note::parse(bytes)
        && let Ok(checkpoint) = world.log.open(&note)
    {
        let head = checkpoint.head();
        assert!(head.size == 200 && head.root == world.head(200).root, "a checkpoint that nobody signed");
    }
    if let Ok(proof) = Proof::parse(bytes) {
        let index = usize::try_from(proof.index()).unwrap_or(usize::MAX);
        for entry in [entry_of(7), entry_of(index), Vec::new()] {
            let alone = proof.verify(&entry, &world.log).is_ok();
            assert!(
                alone || proof.verify_cosigned(&entry, &world.quorum).is_err(),
                "a quorum without the log"
            );
            if alone {
                let derived = Proof::new(
                    proof.index(),
                    inclusion_path(&world.leaves[..200], index),
                    proof.note().clone(),
                );
                let derived = derived.expect("a short path").with_extra(proof.extra().to_vec());
                assert!(derived == proof && entry == entry_of(index), "a proof of something else");
            }
        }
    }
    if let Ok(request) = Request::parse(bytes) {
        for last in [None, Some(world.head(70)), Some(world.head(200))] {
            if witness::check(&world.log, last, &request).is_ok() {
                let old = last.map_or(0, |head| head.size);
                let derived = consistency_proof(&world.leaves[..200], old).expect("sizes in order");
                assert!(request.old_size() == old && request.proof() == derived, "another proof");
            }
        }
    }
}

/// Tiles and bundles of any name.
fn pieces(input: &mut Input<'_>) {
    let (level, index, width) = (input.u8(), input.u64() >> input.below(64), input.u16() % 300);
    if let Ok(tile) = Tile::new(level, index, width) {
        let name = tile.to_string();
        assert!(name.parse() == Ok(Resource::Tile(tile)), "{name}");
        let bytes = input.rest();
        let parsed = tile.parse(bytes);
        assert_eq!(parsed.is_ok(), bytes.len() == 32 * usize::from(width));
        if let Ok(hashes) = parsed {
            assert!(hashes.concat() == bytes);
        }
    }
    if let Ok(bundle) = Bundle::new(index, width) {
        let name = bundle.to_string();
        assert!(name.parse() == Ok(Resource::Bundle(bundle)), "{name}");
        let bytes = input.rest();
        let mut parsed = None;
        let held = measure(|| parsed = bundle.parse(bytes).ok()).bytes_max;
        assert!(held <= 16 * u64::from(width) + 256, "{held} bytes for {width} entries");
        if let Some(entries) = parsed {
            let mut written = Vec::new();
            entries.iter().for_each(|one| entry::push(&mut written, one).expect("it was in a bundle"));
            assert!(written == bytes && entries.len() == usize::from(width));
        }
    }
    let size = input.u64() >> input.below(64);
    let peaks: Vec<[u8; 32]> = (0..input.u8() % 70).map(|_| [input.u8(); 32]).collect();
    if let Ok(mut edge) = Edge::from_parts(size, peaks.clone()) {
        assert_eq!((edge.size(), edge.peaks()), (size, &peaks[..]));
        edge.root();
        if edge.append([7; 32]).is_ok() {
            assert_eq!(edge.peaks().len(), edge.size().count_ones() as usize);
        }
    }
}

/// A list of hashes: the right ones, edited; then numbers beside them, from anywhere.
fn hashes(right: Vec<[u8; 32]>, input: &mut Input<'_>) -> Vec<[u8; 32]> {
    let bytes = edit(right.concat(), WORLD.leaves.as_flattened(), input);
    bytes.as_chunks::<32>().0.to_vec()
}

/// A path that leads from the leaf to the root is the only one, for that place in that tree.
fn inclusion(input: &mut Input<'_>) {
    let world = &*WORLD;
    let size = 1 + usize::from(input.u16()) % SIZE;
    let index = usize::from(input.u16()) % size;
    let right = inclusion_path(&world.leaves[..size], index);
    let (stated_index, stated_size) = match input.below(4) {
        0 => (input.u64(), input.u64()),
        1 => (input.u8().into(), input.u16().into()),
        _ => (index as u64, size as u64),
    };
    let path = hashes(right.clone(), input);
    let root = world.head(size).root;
    let holds = verify_inclusion(&root, &world.leaves[index], stated_index, stated_size, &path).is_ok();
    // Another size can have the same way up to the same root; the checkpoint is what binds the two.
    let same = path == right && (stated_index, stated_size) == (index as u64, size as u64);
    if stated_size == size as u64 {
        assert_eq!(holds, same);
    } else {
        assert!(!holds || path == right, "another path to the same root");
    }
}

/// The same for two trees.
fn consistency(input: &mut Input<'_>) {
    let world = &*WORLD;
    let new = usize::from(input.u16()) % (SIZE + 1);
    let old = usize::from(input.u16()) % (new + 1);
    let right = consistency_proof(&world.leaves[..new], old as u64).expect("sizes in order");
    let mut old_head = world.head(old);
    match input.below(6) {
        0 => old_head.root = world.head(usize::from(input.u16()) % (SIZE + 1)).root,
        1 => old_head.size = input.u64(),
        _ => {}
    }
    let proof = hashes(right.clone(), input);
    let new_root = world.head(new).root;
    let holds = verify_consistency(old_head.size, &old_head.root, new as u64, &new_root, &proof).is_ok();
    let same = proof == right && old_head == world.head(old);
    if old_head.size == old as u64 {
        assert_eq!(holds, same);
    } else {
        assert!(!holds || proof == right, "another proof");
    }
}

/// Makes what all inputs share, so that no input is charged for it.
pub fn init() {
    run(&[]);
}

/// One input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    match input.u8() % 4 {
        0 => match input.u8() {
            255 => texts(input.rest()),
            which => {
                let samples = &WORLD.texts;
                let other = &samples[usize::from(which / 16) % samples.len()];
                texts(&edit(samples[usize::from(which) % samples.len()].clone(), other, &mut input));
            }
        },
        1 => pieces(&mut input),
        2 => inclusion(&mut input),
        _ => consistency(&mut input),
    }
}

pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (which, text) in (0..).zip(&WORLD.texts) {
        seeds.push((format!("text-{which}"), vec![0, which]));
        seeds.push((format!("text-{which}-raw"), [&[0, 255][..], text].concat()));
    }
    // Level 0, index 5, two hashes; then two entries behind a name of the same shape.
    let name = [&[1, 0][..], &5u64.to_le_bytes(), &[0], &2u16.to_le_bytes()].concat();
    seeds.push(("tile".to_owned(), [&name[..], &[9; 64]].concat()));
    seeds.push(("bundle".to_owned(), [&name[..], &[0, 3, 1, 2, 3, 0, 0]].concat()));
    seeds.push(("inclusion".to_owned(), vec![2, 200, 0, 7, 0, 3]));
    seeds.push(("consistency".to_owned(), vec![3, 200, 0, 70, 0, 3]));
    seeds
}
