//! A file that is read and never written: changes stay in memory.

use crate::store::disk::DiskFile;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const PAGE: u64 = 4096;

#[derive(Debug)]
pub struct Overlay {
    file: Arc<dyn DiskFile>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    len: u64,
    /// Bytes of the file that still count: what was cut off does not come back.
    below: u64,
    pages: BTreeMap<u64, [u8; 4096]>,
}

/// The parts of `offset..offset + len` in each page: page, start in it, start and length in the bytes.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + u64::try_from(done).expect("a length fits 64 bits");
        let start = usize::try_from(at % PAGE).expect("below a page");
        let now = (len - done).min(4096 - start);
        let part = (at / PAGE, start, done, now);
        done += now;
        (now > 0).then_some(part)
    })
}

impl Overlay {
    pub fn new(file: Arc<dyn DiskFile>) -> io::Result<Self> {
        let len = file.len()?;
        Ok(Self { file, state: Mutex::new(State { len, below: len, pages: BTreeMap::new() }) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn page(&self, state: &State, page: u64) -> io::Result<[u8; 4096]> {
        if let Some(bytes) = state.pages.get(&page) {
            return Ok(*bytes);
        }
        let mut bytes = [0; 4096];
        let start = page * PAGE;
        let most = state.below.saturating_sub(start).min(PAGE);
        self.file.read_at(start, &mut bytes[..usize::try_from(most).expect("at most a page")])?;
        Ok(bytes)
    }
}

impl DiskFile for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().len)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        let len = u64::try_from(bytes.len()).expect("a length fits 64 bits");
        if offset.checked_add(len).is_none_or(|end| end > state.len) {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        for (page, start, done, now) in parts(offset, bytes.len()) {
            bytes[done..done + now].copy_from_slice(&self.page(&state, page)?[start..start + now]);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        for (page, start, done, now) in parts(offset, bytes.len()) {
            let mut content = self.page(&state, page)?;
            content[start..start + now].copy_from_slice(&bytes[done..done + now]);
            state.pages.insert(page, content);
        }
        state.len = state.len.max(offset + u64::try_from(bytes.len()).expect("a length fits 64 bits"));
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state();
        if len < state.len {
            let cut = len / PAGE;
            let mut content = self.page(&state, cut)?;
            content[usize::try_from(len % PAGE).expect("below a page")..].fill(0);
            state.pages.retain(|page, _| *page < cut);
            state.pages.insert(cut, content);
            state.below = state.below.min(len);
        }
        state.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        Ok(true)
    }

    fn unlock(&self) -> io::Result<()> {
        Ok(())
    }
}
