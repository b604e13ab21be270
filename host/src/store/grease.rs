//! A signature line that means nothing.
//!
//! C2SP lets a note have signatures that nobody knows, and whoever reads one ignores them. A parser that does not is
//! found at once if every checkpoint has such a line.

use sha2::{Digest as _, Sha256};
use tlog::note::Signature;

/// Name of the key that does not exist.
const NAME: &str = "grease.invalid";

/// The line for a note of this text: another one for each, the same one each time.
pub fn signature(text: &str) -> Signature {
    let hash =
        |count: u8| Sha256::new().chain_update(b"panetiere/grease").chain_update([count]).chain_update(text);
    let bytes = [hash(0).finalize(), hash(1).finalize(), hash(2).finalize()].concat();
    let encoded = data_encoding::BASE64.encode(&bytes[..68]);
    Signature::parse_lines(&format!("\u{2014} {NAME} {encoded}\n"))
        .expect("a name, a space and base64 are a signature line")
        .remove(0)
}
