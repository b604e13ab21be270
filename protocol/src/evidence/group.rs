//! Finding the polynomial of a group's sum that is wrong: of posts of megabytes, one polynomial each goes into evidence.

use super::charge::GroupPart;
use super::excerpt::Excerpt;
use crate::bulletin::GroupSum;
use crate::kahe::{CiphertextSum, KaheError};
use crate::protocol::{PostFault, PostSource, ProtocolParams, RejectReason};

/// Asks for every member's ciphertext twice, one at a time: to find the polynomial, and to cut it out.
pub(super) fn ciphertext(
    params: &ProtocolParams,
    sum: &GroupSum,
    source: &mut impl PostSource,
) -> Result<GroupPart, RejectReason> {
    let wire = &params.lattice().wire;
    let len = wire.packed_len();
    let part = |poly: usize, members| {
        let excerpt = Excerpt::of(sum.ciphertext(), poly * len..(poly + 1) * len);
        let poly = u32::try_from(poly).expect("a ciphertext has fewer polynomials than 2^32");
        GroupPart::Ciphertext { poly, sum: excerpt, members }
    };
    if let Some(poly) = sum.ciphertext().chunks_exact(len).position(|bytes| wire.unpack(bytes).is_err()) {
        return Ok(part(poly, Vec::new()));
    }
    let members: Vec<_> = sum.claim().members.keys().copied().collect();
    let mut fetch = |client| {
        let body: Vec<u8> = source.ciphertext(client).ok_or(RejectReason::PostMissing { client })?;
        let whole = body.len() == params.kahe().ciphertext_len();
        let mismatch = PostFault::BodyMismatch { client, part: "ciphertext" };
        if whole { Ok(body) } else { Err(RejectReason::Post(mismatch)) }
    };
    let mut total = CiphertextSum::new(params.kahe());
    let mut wrong = None;
    for &client in &members {
        match total.add(&fetch(client)?) {
            Ok(()) => {}
            Err(KaheError::Malformed { poly, .. }) => {
                wrong = Some(poly);
                break;
            }
            Err(source) => return Err(RejectReason::Post(PostFault::Ciphertext { client, source })),
        }
    }
    let poly = wrong.unwrap_or_else(|| {
        let total = total.to_packed();
        let mut pairs = total.chunks_exact(len).zip(sum.ciphertext().chunks_exact(len));
        pairs.position(|(total, claimed)| total != claimed).unwrap_or(0)
    });
    let mut excerpts = Vec::with_capacity(members.len());
    for &client in &members {
        excerpts.push(Excerpt::of(&fetch(client)?, poly * len..(poly + 1) * len));
    }
    Ok(part(poly, excerpts))
}
