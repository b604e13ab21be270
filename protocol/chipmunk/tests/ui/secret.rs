//! A secret cannot be copied, cloned, compared or displayed, even if its content can.

use chipmunk::secret::Secret;

fn copied<T: Copy>() {}
fn cloned<T: Clone>() {}
fn compared<T: PartialEq>() {}
fn displayed<T: std::fmt::Display>() {}

fn main() {
    copied::<Secret<u32>>();
    cloned::<Secret<u32>>();
    compared::<Secret<u32>>();
    displayed::<Secret<u32>>();
}
