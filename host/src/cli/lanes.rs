//! The shape of the lanes on the command line: `KxN`.

use panetiere::protocol::LaneShape;

/// Lanes that one process runs at most: a guard against a mistyped number, not a bound of the protocol.
pub(crate) const MAX_LANES: u16 = 64;

/// Reads `KxN`: any K of N lanes carry a ciphertext.
///
/// # Errors
/// What to give instead, in one line.
pub(crate) fn parse(text: &str) -> Result<LaneShape, String> {
    let shape = text.split_once('x').and_then(|(needed, lanes)| {
        Some(LaneShape { needed: needed.parse().ok()?, lanes: lanes.parse().ok()? })
    });
    match shape {
        Some(shape) if shape.needed == 0 || shape.needed > shape.lanes => {
            Err(format!("any K of N lanes: K is 1 to N, not {} of {}", shape.needed, shape.lanes))
        }
        Some(shape) if shape.lanes > MAX_LANES => Err(format!("at most {MAX_LANES} lanes")),
        Some(shape) => Ok(shape),
        None => Err("give KxN, any K of N lanes suffice: 14x16".to_owned()),
    }
}

/// The shape as [`parse`] reads it.
pub(crate) fn text(shape: LaneShape) -> String {
    format!("{}x{}", shape.needed, shape.lanes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_as_they_are_written() {
        for (needed, lanes) in [(1, 1), (3, 4), (14, 16), (64, 64)] {
            let shape = LaneShape { needed, lanes };
            assert_eq!(parse(&text(shape)), Ok(shape));
        }
    }

    #[test]
    fn what_is_no_shape_is_refused_with_one_that_is() {
        for (bad, telling) in [
            ("", "14x16"),
            ("14", "14x16"),
            ("14 of 16", "14x16"),
            ("x", "14x16"),
            ("14x16x18", "14x16"),
            ("-1x4", "14x16"),
            ("3x65536", "14x16"),
            ("0x4", "K is 1 to N, not 0 of 4"),
            ("5x4", "K is 1 to N, not 5 of 4"),
            ("3x65", "at most 64"),
        ] {
            let text = parse(bad).expect_err(bad);
            assert!(text.contains(telling), "{bad}: {text}");
        }
    }
}
