//! Every byte format of the protocol and every leaf of the log.
//!
//! Input: which format; 255 and the bytes themselves, or which valid sample and what is done to it.

use crate::input::{Input, edit};
use crate::world::{
    AGGREGATED, CODED, DIRECT, GROUPS, LANE_SERVER_SUMS, LANE_SUMS, LANES, SENT, SUMS, answer, checked, code,
    context, key, opening, sets, terms, written,
};
use allocation_counter::measure;
use panetiere::bulletin::{
    Answer, CanonicalSet, Checked, ClientBulletinEntry, Envelope, Epoch, GroupSum, LaneBulletinEntry,
    LaneItem, PostHead, PostStatement, PostView, RsClientBulletinEntry, ServerBulletinEntry,
    SignedGroupClaim, SignedLaneClaim, SignedPost, SignedSumClaim, StatementContext,
};
use panetiere::channel::Encoding;
use panetiere::codec::slots::Reservation;
use panetiere::cs::{AggregatedOpening, Commitment, FreshOpening};
use panetiere::evidence::Evidence;
use panetiere::ids::{AggregatorId, ClientId, EpochId, NodeId, RootDigest, ServerId, SessionId};
use panetiere::pke::PublicKey;
use panetiere::protocol::{ProtocolParams, SumPart, Terms};
use panetiere::share_commitment::{AggregatedShare, ShareCommitment, SharePath};
use panetiere::sig::{Signature, VerifyingKey};
use panetiere::wire::{Decode, DecodeWith, Encode};
use panetiere_api::leaf::{Leaf, RoundId};
use std::fmt::Display;
use std::str::FromStr;
use std::sync::LazyLock;

/// Parses, within the allowance, and writes what came out.
type Law = fn(&[u8]) -> Option<Vec<u8>>;

struct Format {
    name: &'static str,
    samples: Vec<Vec<u8>>,
    law: Law,
}

/// Bytes that a parser may hold at once for `len` bytes of input: packed coefficients of 7 bits or more become words
/// of 32, of which a checked copy exists besides; the rest are small vectors.
const fn allowance(len: usize) -> u64 {
    16 * len as u64 + 4096
}

fn law<T, E>(
    bytes: &[u8],
    parse: impl FnOnce(&[u8]) -> Result<T, E>,
    write: impl FnOnce(&T) -> Vec<u8>,
) -> Option<Vec<u8>> {
    let mut outcome = None;
    let held = measure(|| outcome = parse(bytes).ok()).bytes_max;
    assert!(held <= allowance(bytes.len()), "{held} bytes for {}", bytes.len());
    outcome.map(|value| write(&value))
}

/// A type that parses by itself.
fn plain<T: Decode + Encode>(bytes: &[u8]) -> Option<Vec<u8>> {
    law(bytes, T::from_bytes, |value| {
        let written = value.to_bytes();
        assert_eq!(written.len(), value.encoded_len());
        written
    })
}

/// A type that parses under a round's parameters and writes without them.
fn under<T: DecodeWith<ProtocolParams> + Encode>(params: &ProtocolParams, bytes: &[u8]) -> Option<Vec<u8>> {
    law(bytes, |bytes| T::from_bytes_with(params, bytes), Encode::to_bytes)
}

/// A text form.
fn text<T: FromStr + Display>(bytes: &[u8]) -> Option<Vec<u8>> {
    let text = str::from_utf8(bytes).ok()?;
    law(bytes, |_| text.parse::<T>(), |value| value.to_string().into_bytes())
}

/// One of every kind; none of them convicts.
pub fn evidence() -> Vec<Vec<u8>> {
    let (epoch, one) = (&DIRECT.epoch, CanonicalSet::new([ClientId(0)]).expect("one client"));
    let (post, coded) = (&SENT[0].post, &CODED[0]);
    let (own, coded_own) = (key(&DIRECT, ClientId(0)), key(&LANES, ClientId(0)));
    let params = &DIRECT.params;
    let roots = SENT.iter().map(|sent| &sent.post.head.commitment);
    let round = AGGREGATED.posted(0);
    let group = |part| {
        Evidence::bad_group(&AGGREGATED.params, &AGGREGATED.epoch, &GROUPS[0], part, &mut round.posts())
            .expect("posts at hand")
    };
    let lanes = (&LANES.params, &LANES.epoch);
    let charges = [
        Evidence::bad_opening(params, epoch, &SUMS[1], &DIRECT.all(), roots),
        Evidence::bad_lane(lanes.0, lanes.1, &LANE_SUMS[1][0], &one, [&coded.post.share_commitment]),
        Evidence::double_server_sum(params, epoch, [&SUMS[0], &SUMS[1]]),
        group(SumPart::Root),
        group(SumPart::Ciphertext),
        Evidence::double_group_sum(&AGGREGATED.params, &AGGREGATED.epoch, [&GROUPS[0], &GROUPS[1]]),
        Evidence::double_lane_sum(lanes.0, lanes.1, [&LANE_SUMS[0][0], &LANE_SUMS[0][1]]),
        Evidence::double_post(params, epoch, &own, [&post.head.signed, &SENT[1].post.head.signed]),
        Evidence::bad_share(lanes.0, lanes.1, &coded_own, &coded.post.signed, &coded.items[2]),
        Evidence::not_a_codeword(lanes.0, lanes.1, &coded_own, &coded.post.signed, &coded.items),
        Evidence::bad_ciphertext(params, epoch, &own, &post.head.signed, &post.ciphertext),
        Evidence::bad_ciphertext(params, epoch, &own, &post.head.signed, &[]),
    ];
    charges.iter().map(Encode::to_bytes).collect()
}

fn ids() -> Vec<Vec<u8>> {
    let texts = ["0", "65535", "4294967296", "18446744073709551615", "sketch", "peeling", "slots"];
    let mut all: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    all.push(DIRECT.session(0).to_string().into_bytes());
    all
}

static FORMATS: LazyLock<Vec<Format>> = LazyLock::new(|| {
    let (direct, lanes, aggregated) = (&DIRECT.params, &LANES.params, &AGGREGATED.params);
    let layout = direct.cs().summed_layout(3);
    let (post, coded) = (&SENT[0].post, &CODED[0]);
    let one = |bytes: Vec<u8>| vec![bytes];
    let format = |name, samples, law: Law| Format { name, samples, law };
    let formats = vec![
        format("leaf", crate::record::leaves(), |bytes| law(bytes, Leaf::parse, Leaf::to_bytes)),
        format("evidence", evidence(), plain::<Evidence>),
        format("terms", terms(), plain::<Terms>),
        format(
            "epoch",
            vec![DIRECT.epoch.to_bytes(), LANES.epoch.to_bytes(), AGGREGATED.epoch.to_bytes()],
            plain::<Epoch>,
        ),
        format("canonical set", sets(), plain::<CanonicalSet>),
        format("statement", one(post.head.signed.claim().to_bytes()), plain::<PostStatement>),
        format("signed post", one(post.head.signed.to_bytes()), plain::<SignedPost>),
        format("signed erasure post", one(coded.post.signed.to_bytes()), plain::<SignedPost>),
        format("context", one(context().to_bytes()), plain::<StatementContext>),
        format("server claim", one(SUMS[2].signed().to_bytes()), plain::<SignedSumClaim>),
        format("lane claim", one(LANE_SUMS[1][1].signed().to_bytes()), plain::<SignedLaneClaim>),
        format("group claim", one(GROUPS[0].signed().to_bytes()), plain::<SignedGroupClaim>),
        format("checked", vec![checked(0, 0).to_bytes(), checked(2, 3).to_bytes()], |bytes| {
            under::<Checked>(&DIRECT.params, bytes)
        }),
        format("answer", one(answer().to_bytes()), |bytes| under::<Answer>(&DIRECT.params, bytes)),
        format("envelope", vec![SENT[0].envelopes[0].to_bytes(), SENT[0].envelopes[2].to_bytes()], |bytes| {
            under::<Envelope>(&DIRECT.params, bytes)
        }),
        format("lane item", vec![coded.items[0].to_bytes(), coded.items[2].to_bytes()], |bytes| {
            under::<LaneItem>(&LANES.params, bytes)
        }),
        format("post", one(post.to_bytes(direct)), |bytes| {
            let params = &DIRECT.params;
            let view = PostView::parse(params, bytes).ok();
            let whole = law(
                bytes,
                |bytes| ClientBulletinEntry::from_bytes_with(params, bytes),
                |post| {
                    assert_eq!(view.as_ref(), Some(&PostView::from(post)));
                    post.to_bytes(params)
                },
            );
            assert_eq!(whole.is_some(), view.is_some());
            whole
        }),
        format("post head", one(post.head.to_bytes(direct)), |bytes| {
            let params = &DIRECT.params;
            law(bytes, |bytes| PostHead::from_bytes_with(params, bytes), |head| head.to_bytes(params))
        }),
        format("erasure post", one(coded.post.to_bytes(lanes)), |bytes| {
            let params = &LANES.params;
            law(
                bytes,
                |bytes| RsClientBulletinEntry::from_bytes_with(params, bytes),
                |post| post.to_bytes(params),
            )
        }),
        format("server sum", SUMS.iter().map(|sum| sum.to_bytes(direct)).collect(), |bytes| {
            let params = &DIRECT.params;
            law(
                bytes,
                |bytes| ServerBulletinEntry::from_bytes_with(params, bytes),
                |sum| sum.to_bytes(params),
            )
        }),
        format("server sum with lanes", one(LANE_SERVER_SUMS[0].to_bytes(lanes)), |bytes| {
            let params = &LANES.params;
            law(
                bytes,
                |bytes| ServerBulletinEntry::from_bytes_with(params, bytes),
                |sum| sum.to_bytes(params),
            )
        }),
        format("lane sum", LANE_SUMS.iter().flatten().map(|sum| sum.to_bytes(code())).collect(), |bytes| {
            law(
                bytes,
                |bytes| LaneBulletinEntry::from_bytes_with(&LANES.params, bytes),
                |sum| sum.to_bytes(code()),
            )
        }),
        format("group sum", GROUPS.iter().map(|sum| sum.to_bytes(aggregated)).collect(), |bytes| {
            let params = &AGGREGATED.params;
            law(bytes, |bytes| GroupSum::from_bytes_with(params, bytes), |sum| sum.to_bytes(params))
        }),
        format("fresh opening", one(opening().to_bytes(direct.cs()).to_vec()), |bytes| {
            let cs = DIRECT.params.cs();
            law(
                bytes,
                |bytes| FreshOpening::from_bytes_with(cs, bytes),
                |opening| opening.to_bytes(cs).to_vec(),
            )
        }),
        format("aggregated opening", one(written(|out| SUMS[1].opening().encode(layout, out))), |bytes| {
            let layout = DIRECT.params.cs().summed_layout(3);
            law(
                bytes,
                |bytes| AggregatedOpening::from_bytes_with(&layout, bytes),
                |opening| written(|out| opening.encode(layout, out)),
            )
        }),
        format("share path", one(coded.items[1].body[code().rs().share_len()..].to_vec()), |bytes| {
            let params = code().commitment();
            law(
                bytes,
                |bytes| SharePath::from_bytes_with(params, bytes),
                |path| written(|out| path.encode(params, out)),
            )
        }),
        format(
            "aggregated share",
            one(written(|out| LANE_SUMS[2][0].opening().encode(code().commitment().summed_layout(3), out))),
            |bytes| {
                let layout = code().commitment().summed_layout(3);
                law(
                    bytes,
                    |bytes| AggregatedShare::from_bytes_with(&layout, bytes),
                    |opening| written(|out| opening.encode(layout, out)),
                )
            },
        ),
        format("commitment", one(post.head.commitment.to_bytes(direct.lattice())), |bytes| {
            let lattice = DIRECT.params.lattice();
            law(bytes, |bytes| Commitment::from_bytes(lattice, bytes), |root| root.to_bytes(lattice))
        }),
        format("share commitment", one(coded.post.share_commitment.to_bytes(lanes.lattice())), |bytes| {
            let lattice = LANES.params.lattice();
            law(bytes, |bytes| ShareCommitment::from_bytes(lattice, bytes), |root| root.to_bytes(lattice))
        }),
        format("verifying key", one(key(&DIRECT, ClientId(0)).to_bytes()), plain::<VerifyingKey>),
        format("signature", one(DIRECT.epoch.servers()[0].signature.to_bytes()), plain::<Signature>),
        format("public key", one(DIRECT.epoch.servers()[0].envelope_key.to_bytes()), plain::<PublicKey>),
        format("reservation", one(Reservation { ticket: 1, bytes: 77 }.to_bytes()), plain::<Reservation>),
        format("texts", ids(), |bytes| {
            let forms: [Law; 9] = [
                text::<AggregatorId>,
                text::<ClientId>,
                text::<Encoding>,
                text::<EpochId>,
                text::<NodeId>,
                text::<RootDigest>,
                text::<RoundId>,
                text::<ServerId>,
                text::<SessionId>,
            ];
            forms.iter().fold(None, |found, form| {
                let spelt = form(bytes);
                assert!(spelt.as_ref().is_none_or(|spelt| spelt == bytes), "two spellings");
                found.or(spelt)
            })
        }),
    ];
    for Format { name, samples, law } in &formats {
        assert!(samples.iter().any(|sample| law(sample).as_ref() == Some(sample)), "{name}: no valid sample");
    }
    formats
});

/// Makes what all inputs share, so that no input is charged for it.
pub fn init() {
    run(&[]);
}

/// One input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let Format { name, samples, law } = input.pick(&FORMATS);
    let bytes = match input.u8() {
        255 => input.rest().to_vec(),
        which => {
            let sample = &samples[usize::from(which) % samples.len()];
            let other = &samples[usize::from(which / 16) % samples.len()];
            edit(sample.clone(), other, &mut input)
        }
    };
    let Some(written) = law(&bytes) else { return };
    assert!(written == bytes, "{name}: accepted, with another encoding");
    // An unread leaf is a context and whatever follows; the parser that its round has looks at that.
    let unread = *name == "leaf"
        && Leaf::parse(&bytes).is_ok_and(|leaf| matches!(leaf, Leaf::Answer(_) | Leaf::Checked(_)));
    if unread || *name == "texts" {
        return;
    }
    // No strict prefix and nothing longer is a value.
    let longer = [&bytes[..], &[0]].concat();
    assert!(law(&longer).is_none(), "{name}: bytes behind the end");
    for cut in [0, bytes.len() / 2, input.place(bytes.len()), bytes.len().saturating_sub(1)] {
        assert!(cut == bytes.len() || law(&bytes[..cut]).is_none(), "{name}: a prefix of {cut} bytes");
    }
}

pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (at, Format { name, samples, .. }) in (0..).zip(&*FORMATS) {
        let name = name.replace(' ', "-");
        for (which, sample) in (0..16).zip(samples) {
            seeds.push((format!("{name}-{which}"), vec![at, which]));
            if sample.len() <= 600 {
                seeds.push((format!("{name}-{which}-raw"), [&[at, 255][..], sample].concat()));
            }
        }
    }
    seeds
}
