//! A wrapper for values that must not be printed, copied or left in memory.

use std::fmt;
use zeroize::Zeroize;

/// A secret: wiped on drop, without `Clone`, `PartialEq` or any way to print it. [`expose`](Self::expose) is the one
/// way in, so that every use can be found by searching for it.
pub struct Secret<T: Zeroize>(T);

impl<T: Zeroize> Secret<T> {
    /// Takes ownership of a secret value.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value, for reading.
    pub const fn expose(&self) -> &T {
        &self.0
    }

    /// The value, for writing.
    pub const fn expose_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Zeroize> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", Secret::new(vec![7u32, 8])), "Secret(..)");
    }
}
