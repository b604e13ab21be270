//! Reading a sum: peeling.

use super::columns::ColumnKey;
use super::vector::Mse;
use super::{HEAD, LABEL_SYMBOLS, MSE_MODULUS};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;

/// One message read from a sum. Ordered by symbols, then label, which says nothing of the sender.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Element {
    /// The message: as many symbols of 35 bits as the parameters say.
    pub symbols: Vec<u64>,
    /// Its label.
    pub label: [u64; LABEL_SYMBOLS],
}

impl fmt::Debug for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Element(..)")
    }
}

/// What a sum gave, and what it holds besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peeled {
    /// The messages that came out, sorted.
    pub elements: Vec<Element>,
    /// What is left without them.
    pub rest: Rest,
}

/// What is left of a sum once nothing more can be peeled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// The rows contradict each other, or hold something that they do not count: some client's vector is
    /// malformed. How many messages are missing cannot be told.
    Garbage,
    /// Nothing: every message came out.
    Nothing,
    /// A stopping set, as far as the counts tell: too many messages, bad luck, or a malformed vector.
    Stalled {
        /// Messages that did not come out. At least 1.
        missing: u64,
    },
}

impl Mse {
    /// Takes out one message after the other until no cell shows one.
    ///
    /// A cell shows a message if its count is 1, its label belongs into this cell, no message with that label
    /// came out before, and `accept` takes the element (its check symbol is right). Nothing else is ever
    /// taken out, so a malformed cell cannot damage the others. Deterministic: the order of the cells and
    /// what they hold decide everything.
    ///
    /// Work and memory are bounded by the shape, whatever the vectors hold. Each message that comes out
    /// lowers the count of exactly one cell in every row by 1, modulo 2^35. The cell it is read from goes from
    /// 1 to 0, and could show another one only after 2^35 - 1 more. There are fewer cells than that, so none
    /// is read twice: no more messages than cells come out.
    pub fn peel(mut self, key: &ColumnKey, accept: impl Fn(&Element) -> bool) -> Peeled {
        let width = self.params.width();
        let mut elements = Vec::new();
        let mut labels = BTreeSet::new();
        let mut queue: VecDeque<usize> = (0..self.params.cells()).collect();
        while let Some(cell) = queue.pop_front() {
            let Some(element) = self.shown_by(cell, key) else { continue };
            if labels.contains(&element.label) || !accept(&element) {
                continue;
            }
            let content = self.scalars[cell * width..][..width].to_vec();
            for (row, bucket) in self.buckets_of(&element.label, key).into_iter().enumerate() {
                let other = row * self.params.buckets + bucket;
                for (scalar, &value) in self.scalars[other * width..][..width].iter_mut().zip(&content) {
                    *scalar = scalar.wrapping_sub(value) & (MSE_MODULUS - 1);
                }
                queue.push_back(other);
            }
            labels.insert(element.label);
            elements.push(element);
            debug_assert!(elements.len() <= self.params.cells(), "a cell was read twice");
        }
        elements.sort_unstable();
        Peeled { elements, rest: self.rest() }
    }

    /// The element in a cell that counts one, if its label belongs there.
    fn shown_by(&self, cell: usize, key: &ColumnKey) -> Option<Element> {
        let width = self.params.width();
        let (head, symbols) = self.scalars[cell * width..][..width].split_at(HEAD);
        let &[1, ref label @ ..] = head else { return None };
        let label: [u64; LABEL_SYMBOLS] = label.try_into().expect("a head is the count and the label");
        let (row, bucket) = (cell / self.params.buckets, cell % self.params.buckets);
        (self.bucket_of(&label, row, key) == bucket).then(|| Element { symbols: symbols.to_vec(), label })
    }

    fn buckets_of(&self, label: &[u64; LABEL_SYMBOLS], key: &ColumnKey) -> Vec<usize> {
        (0..self.params.rows).map(|row| self.bucket_of(label, row, key)).collect()
    }

    fn bucket_of(&self, label: &[u64; LABEL_SYMBOLS], row: usize, key: &ColumnKey) -> usize {
        let bucket = key.bucket(row as u64, label, self.params.buckets as u64);
        usize::try_from(bucket).expect("a bucket is less than their number")
    }

    fn rest(&self) -> Rest {
        if !self.stray && self.scalars.iter().all(|&scalar| scalar == 0) {
            return Rest::Nothing;
        }
        let width = self.params.width();
        let mut counts = self.scalars.chunks_exact(self.params.buckets * width).map(|cells| {
            cells.iter().step_by(width).fold(0, |sum: u64, &count| (sum + count) & (MSE_MODULUS - 1))
        });
        let missing = counts.next().unwrap_or(0);
        // A number in the upper half is a negative one.
        if missing == 0 || missing >= MSE_MODULUS / 2 || counts.any(|other| other != missing) {
            return Rest::Garbage;
        }
        Rest::Stalled { missing }
    }
}
