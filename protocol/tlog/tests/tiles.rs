//! Tiles, bundles, the builder and proofs from tiles, against the naive tree.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod naive;

use naive::{Hash, Naive};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use tlog::MAX_SIZE;
use tlog::builder::{Builder, ResumeError};
use tlog::entry::{self, EntryError, MAX_ENTRY_BYTES};
use tlog::prove::{self, ProveError, ReadTiles};
use tlog::tile::{Bundle, LEVELS, Resource, Tile, TileError, WIDTH, new_tiles};

/// Files by path, as a web server has them. Remembers what was read.
#[derive(Clone, Default)]
struct Files {
    files: BTreeMap<String, Vec<u8>>,
    read: RefCell<Vec<String>>,
}

#[derive(Debug, thiserror::Error)]
#[error("no file {0}")]
struct Missing(String);

impl Files {
    fn store(&mut self, builder: &mut Builder) {
        for written in builder.take_changes() {
            self.files.insert(written.resource.to_string(), written.bytes);
        }
    }

    fn get(&self, path: String) -> Result<Vec<u8>, Missing> {
        self.read.borrow_mut().push(path.clone());
        self.files.get(&path).cloned().ok_or(Missing(path))
    }
}

impl ReadTiles for Files {
    type Error = Missing;

    fn bundle(&self, bundle: Bundle) -> Result<Vec<u8>, Missing> {
        self.get(bundle.to_string())
    }

    fn tile(&self, tile: Tile) -> Result<Vec<u8>, Missing> {
        self.get(tile.to_string())
    }
}

/// A log of numbered entries, stored after each of `sizes`.
fn built(sizes: &[u64]) -> (Builder, Files) {
    let (mut builder, mut files) = (Builder::new(), Files::default());
    for size in sizes {
        while builder.size() < *size {
            builder.append(format!("entry {}", builder.size()).as_bytes()).unwrap();
        }
        files.store(&mut builder);
    }
    (builder, files)
}

fn at(index: u64) -> usize {
    index.try_into().unwrap()
}

/// C2SP tlog-tiles, word for word: the n-th tile at level l is MTH(D[(n * 256 + i) * 256**l : (n * 256 + i + 1) * 256**l]).
fn by_the_book(naive: &Naive, tile: Tile) -> Vec<u8> {
    let power = 256_u64.pow(tile.level().into());
    let hash = |i: u64| {
        let place = tile.index() * 256 + i;
        naive.mth(at(place * power), at((place + 1) * power))
    };
    (0..u64::from(tile.width())).flat_map(hash).collect()
}

/// C2SP tlog-tiles: the partial tile at level l for a tree of size s has floor(s / 256**l) mod 256 entries.
fn tiles_by_the_book(size: u64) -> Vec<Tile> {
    let mut tiles = Vec::new();
    for level in 0..8 {
        let on_level = size / 256_u64.pow(level.into());
        tiles.extend((0..on_level / 256).map(|index| Tile::new(level, index, 256).unwrap()));
        let rest = u16::try_from(on_level % 256).unwrap();
        tiles.extend((rest > 0).then(|| Tile::new(level, on_level / 256, rest).unwrap()));
    }
    tiles
}

#[test]
fn files_are_those_of_the_specification() {
    let sizes = [1, 2, 255, 256, 257, 300, 512, 66_000];
    let (builder, files) = built(&sizes);
    let naive = Naive::numbered(66_000);
    assert_eq!(builder.root(), naive.mth(0, 66_000));
    let mut expected = BTreeMap::new();
    for tile in sizes.iter().flat_map(|size| tiles_by_the_book(*size)) {
        expected.insert(tile.to_string(), by_the_book(&naive, tile));
        if tile.level() == 0 {
            let bundle = Bundle::new(tile.index(), tile.width()).unwrap();
            let entries = &naive.entries()[at(tile.index() * 256)..][..tile.width().into()];
            let framed = |entry: &Vec<u8>| [&[0, u8::try_from(entry.len()).unwrap()], &entry[..]].concat();
            expected.insert(bundle.to_string(), entries.iter().flat_map(framed).collect());
        }
    }
    assert!(files.files == expected, "the files differ");
}

/// The specification's example: 273 full tiles and one of width 112, one full and one of 17, one of 1.
#[test]
fn a_tree_of_seventy_thousand_has_the_tiles_of_the_example() {
    let tiles: Vec<Tile> = new_tiles(0, 70_000).unwrap().collect();
    let width = |level: u8| tiles.iter().filter(move |tile| tile.level() == level).map(|tile| tile.width());
    assert_eq!(width(0).filter(|width| *width == WIDTH).count(), 273);
    assert_eq!(width(0).next_back(), Some(112));
    assert_eq!(width(1).collect::<Vec<_>>(), [256, 17]);
    assert_eq!(width(2).collect::<Vec<_>>(), [1]);
    assert_eq!(tiles.iter().map(|tile| tile.level()).max(), Some(2));
    assert_eq!(tiles, tiles_by_the_book(70_000));
}

#[test]
fn a_log_resumed_at_any_size_goes_on_as_the_same_log() {
    let end = 70_u64;
    let starts = (0..=520).step_by(13).chain([255, 256, 257, 511, 512, 513, 65_535, 65_536, 65_537]);
    for start in starts {
        let (mut whole, mut files) = built(&[start]);
        files.read.borrow_mut().clear();
        let mut resumed = Builder::resume(start, &whole.root(), &files).unwrap();
        assert!(files.read.borrow().len() <= usize::from(LEVELS) + 1, "reads no more than the edge");
        let mut again = files.clone();
        for i in 0..end {
            whole.append(&i.to_be_bytes()).unwrap();
            resumed.append(&i.to_be_bytes()).unwrap();
        }
        assert_eq!(resumed.edge(), whole.edge(), "from {start}");
        files.store(&mut whole);
        again.store(&mut resumed);
        assert!(files.files == again.files, "from {start}");
    }
}

#[test]
fn a_log_is_not_resumed_from_damaged_files() {
    let (builder, files) = built(&[300]);
    let root = builder.root();
    files.read.borrow_mut().clear();
    Builder::resume(300, &root, &files).unwrap();
    let needed = files.read.borrow().clone();
    assert_eq!(needed, ["tile/1/000.p/1", "tile/0/001.p/44", "tile/entries/001.p/44"]);
    for path in &needed {
        for place in 0..files.files[path].len() {
            let mut damaged = files.clone();
            damaged.files.get_mut(path).unwrap()[place] ^= 1 << (place % 8);
            assert!(Builder::resume(300, &root, &damaged).is_err(), "{path} at {place}");
        }
        let mut damaged = files.clone();
        damaged.files.get_mut(path).unwrap().push(0);
        assert!(Builder::resume(300, &root, &damaged).is_err(), "{path} longer");
        damaged.files.get_mut(path).unwrap().truncate(1);
        assert!(Builder::resume(300, &root, &damaged).is_err(), "{path} shorter");
        damaged.files.remove(path);
        assert!(Builder::resume(300, &root, &damaged).is_err(), "{path} missing");
    }
    let other = Builder::resume(300, &[7; 32], &files);
    assert!(matches!(other, Err(ResumeError::Tiles(ProveError::RootMismatch { size: 300 }))));
    let large = Builder::resume(MAX_SIZE + 1, &root, &files);
    assert!(matches!(large, Err(ResumeError::Tiles(ProveError::TooLarge { .. }))));
}

#[test]
fn proofs_from_tiles_are_the_naive_ones() {
    let sizes = [1, 2, 3, 255, 256, 257, 300, 511, 512, 513, 65_535, 65_536, 65_537, 66_000];
    let (_, files) = built(&sizes);
    let naive = Naive::numbered(66_000);
    for size in sizes {
        let n = at(size);
        let root = naive.mth(0, n);
        let edge = prove::edge(size, &root, &files).unwrap();
        assert_eq!((edge.size(), edge.root()), (size, root));
        let indices =
            [0, 1, 2, 100, 254, 255, 256, 257, 510, 511, 512, 65_279, 65_280, 65_535, 65_536, size - 1];
        for index in indices.into_iter().filter(|index| *index < size) {
            let made = prove::inclusion(index, size, &root, &files).unwrap();
            assert_eq!(made.leaf, naive.mth(at(index), at(index) + 1));
            assert_eq!(made.path, naive.path(at(index), 0, n), "leaf {index} of {size}");
        }
        for old in sizes.into_iter().filter(|old| *old <= size) {
            let from = naive.mth(0, at(old));
            let made = prove::consistency(old, &from, size, &root, &files).unwrap();
            assert_eq!(made, naive.proof(at(old), n), "{old} to {size}");
        }
    }
}

#[test]
fn proofs_are_not_made_from_damaged_tiles() {
    let (builder, files) = built(&[300]);
    let (root, naive) = (builder.root(), Naive::numbered(300));
    for (path, bytes) in files.files.iter().filter(|(path, _)| !path.contains("entries")) {
        for place in (0..bytes.len()).step_by(7) {
            let mut damaged = files.clone();
            damaged.files.get_mut(path).unwrap()[place] ^= 1;
            // Leaf 270 needs leaf tile 1, whole, and the root of leaf tile 0 from the tile above; leaf 3 needs tile 0.
            let index = if path.starts_with("tile/0/000") { 3 } else { 270 };
            let made = prove::inclusion(index, 300, &root, &damaged);
            assert!(matches!(made, Err(ProveError::RootMismatch { size: 300 })), "{path} at {place}");
        }
    }
    let mut gone = files.clone();
    gone.files.remove("tile/0/001.p/44");
    let made = prove::inclusion(270, 300, &root, &gone);
    assert!(matches!(made, Err(ProveError::Unreadable { .. })));
    let old = prove::consistency(257, &[1; 32], 300, &root, &files);
    assert!(matches!(old, Err(ProveError::RootMismatch { size: 257 })));
    let new = prove::consistency(257, &naive.mth(0, 257), 300, &[1; 32], &files);
    assert!(matches!(new, Err(ProveError::RootMismatch { size: 300 })));
    assert!(matches!(prove::inclusion(300, 300, &root, &files), Err(ProveError::Inclusion(_))));
    assert!(matches!(prove::consistency(301, &root, 300, &root, &files), Err(ProveError::Sizes(_))));
    assert!(matches!(prove::edge(u64::MAX, &root, &files), Err(ProveError::TooLarge { .. })));
}

#[test]
fn paths_have_one_spelling() {
    for (path, tile) in [
        ("tile/0/000", Tile::new(0, 0, 256)),
        ("tile/0/000.p/1", Tile::new(0, 0, 1)),
        ("tile/1/x001/x234/067.p/255", Tile::new(1, 1_234_067, 255)),
        ("tile/0/x001/000", Tile::new(0, 1000, 256)),
        ("tile/0/999", Tile::new(0, 999, 256)),
        ("tile/7/000.p/127", Tile::new(7, 0, 127)),
        ("tile/0/x036/x028/x797/x018/x963/967.p/255", Tile::new(0, MAX_SIZE / 256, 255)),
    ] {
        let tile = tile.unwrap();
        assert_eq!(tile.to_string(), path);
        assert_eq!(path.parse(), Ok(Resource::Tile(tile)));
        let entries = path.replacen("tile/0/", "tile/entries/", 1);
        if entries != path {
            let bundle = Bundle::new(tile.index(), tile.width()).unwrap();
            assert_eq!(bundle.to_string(), entries);
            assert_eq!(entries.parse(), Ok(Resource::Bundle(bundle)));
        }
    }
    for refused in [
        "",
        "tile",
        "tile/",
        "tile/0",
        "tile/0/",
        "tile/0/0",
        "tile/0/00",
        "tile/0/0000",
        "tile/0/x000/001",
        "tile/0/001/001",
        "tile/0/x001",
        "tile/0/x001/",
        "tile/0/x001/x002",
        "tile/0/x01/002",
        "tile/0/X001/002",
        "tile/00/000",
        "tile/+0/000",
        "tile/ 0/000",
        "tile/8/000",
        "tile/64/000",
        "tile/256/000",
        "tile/-1/000",
        "tile/7/000",
        "tile/7/000.p/128",
        "tile/0/000.p/0",
        "tile/0/000.p/256",
        "tile/0/000.p/01",
        "tile/0/000.p/",
        "tile/0/000.p",
        "tile/0/000.p/1/",
        "tile/0/000.p/1.p/1",
        "tile/0/000 ",
        " tile/0/000",
        "/tile/0/000",
        "tile/0/000\n",
        "tile/entries/x000/000",
        "tile/data/000",
        "tile/Entries/000",
        "tile/0/０００",
        "tile/0/x999/x999/x999/x999/x999/x999/999",
        "tile/0/x036/x028/x797/x018/x963/967",
        "tile/0/x036/x028/x797/x018/x963/968.p/1",
    ] {
        assert!(refused.parse::<Resource>().is_err(), "{refused:?}");
    }
    assert_eq!(Bundle::of_entry(299, 300), Bundle::new(1, 44));
    assert_eq!(Bundle::of_entry(255, 300), Bundle::new(0, 256));
    assert!(Bundle::of_entry(300, 300).is_err());
    assert!(Bundle::of_entry(0, u64::MAX).is_err());
}

#[test]
fn entries_fit_a_two_byte_length() {
    let mut bytes = Vec::new();
    let longest = vec![1; MAX_ENTRY_BYTES];
    entry::push(&mut bytes, b"").unwrap();
    entry::push(&mut bytes, &longest).unwrap();
    let before = bytes.clone();
    let refused = entry::push(&mut bytes, &vec![1; MAX_ENTRY_BYTES + 1]);
    assert_eq!(refused, Err(EntryError::TooLong { found: MAX_ENTRY_BYTES + 1 }));
    assert_eq!(bytes, before);
    let bundle = Bundle::new(0, 2).unwrap();
    assert_eq!(bundle.parse(&bytes).unwrap(), [&b""[..], &longest]);

    let mut builder = Builder::new();
    assert!(builder.append(&vec![1; MAX_ENTRY_BYTES + 1]).is_err());
    assert_eq!((builder.size(), builder.take_changes().len()), (0, 0));
}

proptest! {
    /// A bundle parses from its bytes alone: every strict prefix, one more byte, another width are refused.
    #[test]
    fn bundles_parse_exactly(entries in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..=20)) {
        let mut bytes = Vec::new();
        for entry in &entries {
            entry::push(&mut bytes, entry).unwrap();
        }
        let width = u16::try_from(entries.len()).unwrap();
        let bundle = Bundle::new(5, width).unwrap();
        prop_assert_eq!(bundle.parse(&bytes).unwrap(), entries.iter().map(Vec::as_slice).collect::<Vec<_>>());
        for short in 0..bytes.len() {
            let truncated = matches!(bundle.parse(&bytes[..short]), Err(EntryError::Truncated { .. }));
            prop_assert!(truncated);
        }
        bytes.push(0);
        prop_assert_eq!(bundle.parse(&bytes), Err(EntryError::Trailing { bundle, found: 1 }));
        bytes.pop();
        prop_assert!(Bundle::new(5, width + 1).unwrap().parse(&bytes).is_err());
        if width > 1 {
            prop_assert!(Bundle::new(5, width - 1).unwrap().parse(&bytes).is_err());
        }
    }

    /// Foreign bytes: what parses, written again, is what was read.
    #[test]
    fn any_bytes_are_a_bundle_or_not(bytes in prop::collection::vec(0_u8..4, 0..60), width in 1_u16..12) {
        if let Ok(entries) = Bundle::new(0, width).unwrap().parse(&bytes) {
            let mut again = Vec::new();
            entries.iter().for_each(|entry| entry::push(&mut again, entry).unwrap());
            prop_assert_eq!(again, bytes);
        }
    }

    /// Every tile has a path that gives it back, and is refused exactly where no log reaches.
    #[test]
    fn tiles_have_paths(level in 0_u8..9, index in any::<u64>(), shift in 0_u32..64, width in 0_u16..300) {
        let index = index >> shift;
        let end = (u128::from(index) * 256 + u128::from(width)).checked_mul(256_u128.pow(level.into()));
        let exists = (1..=256).contains(&width) && end.is_some_and(|end| end < 1 << 63);
        match Tile::new(level, index, width) {
            Ok(tile) => {
                prop_assert!(exists);
                prop_assert_eq!(tile.to_string().parse(), Ok(Resource::Tile(tile)));
                let bytes = vec![3; usize::from(width) * 32];
                prop_assert_eq!(tile.parse(&bytes), Ok(vec![[3; 32]; width.into()]));
                let length = matches!(tile.parse(&bytes[1..]), Err(TileError::Length { .. }));
                prop_assert!(length);
            }
            Err(_) => prop_assert!(!exists),
        }
    }

    /// Path-like text: what parses is written just so.
    #[test]
    fn any_text_is_a_path_or_not(text in "tile/([0-9]|entries|[0-9]{1,2})/(x?[0-9]{3}/){0,3}[0-9]{2,4}(\\.p/[0-9]{1,3})?") {
        if let Ok(resource) = text.parse::<Resource>() {
            prop_assert_eq!(resource.to_string(), text);
        }
    }

    /// What is new between two sizes is what the larger tree has and the smaller had not.
    #[test]
    fn new_tiles_are_the_difference(old in 0..200_000_u64, step in 0..70_000_u64) {
        let new = old + step;
        let had = tiles_by_the_book(old);
        let expected: Vec<Tile> =
            tiles_by_the_book(new).into_iter().filter(|tile| had.binary_search(tile).is_err()).collect();
        prop_assert_eq!(new_tiles(old, new).unwrap().collect::<Vec<_>>(), expected);
    }

    /// Whatever the steps in which it was stored, a log has the root of its entries.
    #[test]
    fn any_entries_in_any_steps(
        entries in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..600),
        every in 1_usize..300,
    ) {
        let (mut builder, mut files) = (Builder::new(), Files::default());
        for (place, entry) in entries.iter().enumerate() {
            builder.append(entry).unwrap();
            if place % every == 0 {
                files.store(&mut builder);
            }
        }
        files.store(&mut builder);
        let root: Hash = Naive::new(entries.clone()).mth(0, entries.len());
        prop_assert_eq!(builder.root(), root);
        prop_assert!(Builder::resume(builder.size(), &root, &files).is_ok());
        prop_assert_eq!(builder.take_changes(), vec![]);
    }
}
