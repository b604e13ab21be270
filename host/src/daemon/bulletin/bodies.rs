//! Bodies as they go out: read from the disk piece by piece.

use crate::store::{BlobName, BlobStore as _, Store};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Bytes that are read at once.
const PIECE: u64 = 64 << 10;

/// Blobs behind one another, or a part of that.
pub(super) struct BlobBody {
    store: Store,
    /// What is left, the next part last.
    parts: Vec<([u8; 32], Range<u64>)>,
}

impl BlobBody {
    /// The bytes of a range of `blobs` in a row.
    pub(super) fn new(store: &Store, blobs: &[BlobName], range: Range<u64>) -> Self {
        let mut parts = Vec::new();
        let mut start = 0;
        for blob in blobs {
            let part = range.start.clamp(start, start + blob.len) - start
                ..range.end.clamp(start, start + blob.len) - start;
            if part.start < part.end {
                parts.push((blob.digest, part));
            }
            start += blob.len;
        }
        parts.reverse();
        Self { store: store.clone(), parts }
    }
}

impl Body for BlobBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some((digest, range)) = self.parts.last_mut() else { return Poll::Ready(None) };
        let (digest, piece) = (*digest, range.start..range.end.min(range.start + PIECE));
        range.start = piece.end;
        if range.start == range.end {
            self.parts.pop();
        }
        let store = &self.store;
        // The disk may take its time; the worker's other tasks go elsewhere meanwhile.
        let read = tokio::task::block_in_place(|| store.get(&digest, piece));
        Poll::Ready(Some(read.map(|bytes| Frame::data(bytes.into())).map_err(io::Error::other)))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.parts.iter().map(|(_, range)| range.end - range.start).sum())
    }
}
