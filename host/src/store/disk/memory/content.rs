//! Bytes of a file in pages that copies share.

use std::sync::Arc;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Bytes that a disk writes whole or not at all.
const SECTOR: u64 = 512;

type Page = Arc<[u8; 4096]>;

/// A change of a file's bytes.
#[derive(Clone, Debug)]
pub enum Change {
    SetLen(u64),
    Write { offset: u64, bytes: Arc<[u8]> },
}

impl Change {
    /// The length that a file has at least, afterwards.
    pub fn end(&self) -> u64 {
        match self {
            Self::SetLen(len) => *len,
            Self::Write { offset, bytes } => offset + size(bytes),
        }
    }

    /// What a disk did of it that ran out of space.
    pub fn first_half(self) -> Option<Self> {
        match self {
            Self::SetLen(_) => None,
            Self::Write { offset, bytes } => {
                Some(Self::Write { offset, bytes: bytes[..bytes.len() / 2].into() })
            }
        }
    }
}

fn size(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).expect("a length fits 64 bits")
}

fn place(offset: u64) -> (usize, usize) {
    let part = |value: u64| usize::try_from(value).expect("a file in memory fits it");
    (part(offset / PAGE), part(offset % PAGE))
}

/// Bytes of a file. Pages that were never written are zero and take no memory.
#[derive(Clone, Debug, Default)]
pub struct Content {
    len: u64,
    pages: Vec<Option<Page>>,
}

impl Content {
    /// Bytes.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Fills `out`. False if the file ends before.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        if offset.checked_add(size(out)).is_none_or(|end| end > self.len) {
            return false;
        }
        let (mut offset, mut rest) = (offset, out);
        while !rest.is_empty() {
            let (page, start) = place(offset);
            let (now, after) = rest.split_at_mut(rest.len().min(4096 - start));
            match self.pages.get(page) {
                Some(Some(page)) => now.copy_from_slice(&page[start..start + now.len()]),
                _ => now.fill(0),
            }
            offset += size(now);
            rest = after;
        }
        true
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let (mut offset, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let (page, start) = place(offset);
            let (now, after) = rest.split_at(rest.len().min(4096 - start));
            if self.pages.len() <= page {
                self.pages.resize(page + 1, None);
            }
            let page = self.pages[page].get_or_insert_with(|| Arc::new([0; 4096]));
            Arc::make_mut(page)[start..start + now.len()].copy_from_slice(now);
            offset += size(now);
            rest = after;
        }
        self.len = self.len.max(offset);
    }

    fn set_len(&mut self, len: u64) {
        if len < self.len {
            let (page, start) = place(len);
            self.pages.truncate(page + usize::from(start > 0));
            // What comes back if the file grows again is zero.
            if start > 0
                && let Some(Some(page)) = self.pages.get_mut(page)
            {
                Arc::make_mut(page)[start..].fill(0);
            }
        }
        self.len = len;
    }

    /// Does all of a change.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::SetLen(len) => self.set_len(*len),
            Change::Write { offset, bytes } => self.write(*offset, bytes),
        }
    }

    /// Does all, nothing or any sectors of a change, as `below` chooses: a number below the one that it is given.
    pub fn apply_torn(&mut self, change: &Change, mut below: impl FnMut(u64) -> u64) {
        match (below(3), change) {
            (0, _) => {}
            (1, _) | (_, Change::SetLen(_)) => self.apply(change),
            (_, Change::Write { offset, bytes }) => {
                let (mut offset, mut rest) = (*offset, &bytes[..]);
                while !rest.is_empty() {
                    let in_sector = usize::try_from(SECTOR - offset % SECTOR).expect("at most a sector");
                    let (sector, after) = rest.split_at(rest.len().min(in_sector));
                    if below(2) == 0 {
                        self.write(offset, sector);
                    }
                    offset += size(sector);
                    rest = after;
                }
            }
        }
    }
}
