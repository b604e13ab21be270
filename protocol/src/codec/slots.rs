//! Slot reservation: who may write where, agreed on without anybody telling who they are.
//!
//! Two sub-rounds. In the first, every client with a message sends a random 64-bit ticket and the bytes it
//! wants ([`Ticket::request`]) through an encoding that needs no reservation. All compute the same [`Schedule`]
//! from the requests that come out ([`allocate`]). In the second, each client finds its slot by its ticket
//! ([`Schedule::claim`]) and fills it ([`encode_at`]); the sum of all vectors holds every slot
//! ([`decode_ranges`]). Everything here is a pure function; [`crate::channel`] puts messages into slots.
//!
//! Slots are runs of whole coefficients, so no two share one: what a client writes into a foreign slot adds
//! up modulo the plaintext modulus there and changes nothing elsewhere. A slot has room for a check symbol and
//! a length besides its bytes; the check symbol is what tells a message from the sum of two.
//!
//! That all compute the same is more than convenience: whoever shows one client another schedule sees by the place of its
//! message who it is. So the second sub-round names the schedule that it is for ([`Schedule::digest`]), and a client fills
//! no slot of another.
//!
//! The order of the slots follows from the beacon, a hash of all tickets, so no value of a ticket is better
//! than another. Among 300 clients two tickets coincide with probability below 2^-48.
//!
//! A client's ticket and slot are secret: all messages become public with the sum, and only the senders do
//! not. [`Schedule::claim`] and [`encode_at`] are constant time in them.

use super::CodecError;
use super::pack::{self, SYMBOL_LIMIT};
use crate::ids::{ScheduleDigest, tagged_sha256};
use crate::plaintext::PlainPoly;
use crate::wire::{Decode, DecodeError, Encode, Reader};
use chipmunk::N;
use rand_core::CryptoRng;
use std::fmt;
use std::ops::Range;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

#[cfg(test)]
mod tests;

/// Symbols of a slot besides its bytes: check and length.
pub const SLOT_FRAME_SYMBOLS: usize = 2;

/// Most coefficients of a vector of slots: 1 GiB in memory.
pub const MAX_COEFFICIENTS: usize = 1 << 27;

/// Bytes of a request.
pub const RESERVATION_BYTES: usize = 12;

/// A client's own ticket: 64 random bits by which it finds its slot. Fresh for each round; wiped on drop.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Ticket(u64);

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket(..)")
    }
}

impl Ticket {
    /// A uniform ticket.
    pub fn random(rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        Self(rng.next_u64())
    }

    /// The ticket with this value.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// What the client sends in the first sub-round: the ticket, and that it wants `bytes` bytes. A slot of 0
    /// bytes carries an empty message.
    pub fn request(&self, bytes: u32) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(Reservation { ticket: self.0, bytes }.to_bytes())
    }
}

/// One request of the first sub-round, as it comes out of the sum.
///
/// Wire: ticket (u64), bytes (u32), little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Whose slot, as far as anybody knows.
    pub ticket: u64,
    /// Bytes wanted. Anything may stand here.
    pub bytes: u32,
}

impl Encode for Reservation {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.ticket.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
    }

    fn encoded_len(&self) -> usize {
        RESERVATION_BYTES
    }
}

impl Decode for Reservation {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { ticket: reader.u64("ticket")?, bytes: reader.u32("reserved bytes")? })
    }
}

/// Room for slots: what all parties agree on before anybody reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotLayout {
    capacity: usize,
    max_bytes: usize,
}

impl SlotLayout {
    /// Slots of up to `max_bytes` bytes in `capacity` coefficients.
    ///
    /// # Errors
    /// `Empty` for 0 coefficients or bytes; `TooManyCoefficients` above [`MAX_COEFFICIENTS`], for the vector
    /// or for the longest slot. Nothing is allocated here.
    pub fn new(capacity: usize, max_bytes: usize) -> Result<Self, CodecError> {
        if capacity == 0 || max_bytes == 0 {
            return Err(CodecError::Empty);
        }
        let longest = slot_symbols(max_bytes).filter(|&symbols| symbols <= MAX_COEFFICIENTS);
        if capacity > MAX_COEFFICIENTS || longest.is_none() {
            return Err(CodecError::TooManyCoefficients { max: MAX_COEFFICIENTS });
        }
        Ok(Self { capacity, max_bytes })
    }

    /// Coefficients that slots may use.
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes of the longest slot.
    pub const fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Polynomials of every client's vector.
    pub const fn n_polys(&self) -> usize {
        self.capacity.div_ceil(N)
    }
}

/// Coefficients of a slot of `bytes` bytes; `None` if their number overflows.
pub fn slot_symbols(bytes: usize) -> Option<usize> {
    pack::symbols_for(bytes)?.checked_add(SLOT_FRAME_SYMBOLS)
}

/// One slot of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The ticket that reserved it.
    pub ticket: u64,
    /// Bytes that it carries at most.
    pub bytes: usize,
    /// Its coefficients, counted over all polynomials: check, length, then the bytes.
    pub coefficients: Range<usize>,
}

/// Why a request got no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Several requests came with this ticket. None of them gets a slot.
    Duplicate,
    /// The slots before it leave too little room.
    NoRoom,
    /// It wants more bytes than a slot may have.
    TooLong,
}

/// Who may write where. A function of the requests alone, in whatever order they come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    layout: SlotLayout,
    slots: Vec<Slot>,
    refused: Vec<(Reservation, Refusal)>,
}

impl Schedule {
    /// The room it was made for.
    pub const fn layout(&self) -> &SlotLayout {
        &self.layout
    }

    /// The slots, disjoint and from the front.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The requests without a slot.
    pub fn refused(&self) -> &[(Reservation, Refusal)] {
        &self.refused
    }

    /// What all parties have to agree on before anybody fills a slot: a client that was shown a schedule of its own
    /// would tell by the place of its message who it is.
    ///
    /// SHA-256 over the coefficients, the bytes of the longest slot, and each slot's ticket, bytes and first coefficient,
    /// all u64 little-endian. What was refused is no part of it: it has no place.
    pub fn digest(&self) -> ScheduleDigest {
        let head = [self.layout.capacity as u64, self.layout.max_bytes as u64];
        let slots = self.slots.iter();
        let slots = slots.flat_map(|slot| [slot.ticket, slot.bytes as u64, slot.coefficients.start as u64]);
        let bytes: Vec<u8> = head.into_iter().chain(slots).flat_map(u64::to_le_bytes).collect();
        ScheduleDigest::from_digest(tagged_sha256("panetiere/slots/schedule/v1", &[&bytes]))
    }

    /// The slot of a ticket. Constant time in which one it is.
    ///
    /// # Errors
    /// `NoSlot` if the ticket has none; the client then sends cover.
    pub fn claim(&self, ticket: &Ticket) -> Result<Claim, CodecError> {
        let claim = self.find(ticket);
        if bool::from(claim.held()) { Ok(claim) } else { Err(CodecError::NoSlot) }
    }

    /// The claim of a ticket, whether it has a slot or not. Constant time in both.
    pub(crate) fn find(&self, ticket: &Ticket) -> Claim {
        let mut claim = Claim { start: 0, bytes: 0, held: 0 };
        for slot in &self.slots {
            let mine = slot.ticket.ct_eq(&ticket.0);
            claim.start.conditional_assign(&(slot.coefficients.start as u64), mine);
            claim.bytes.conditional_assign(&(slot.bytes as u64), mine);
            claim.held.conditional_assign(&1, mine);
        }
        claim
    }

    /// The vector with a frame in the slot of a claim, and what did not fit: the bits of all symbols behind the slot's
    /// end, and whether this schedule has such a slot. A claim without a slot gives zeros, by the same path.
    ///
    /// Constant time in claim and frame; what shows is the frame's length.
    pub(crate) fn place(&self, claim: &Claim, frame: &[u64]) -> (Vec<PlainPoly>, u64, Choice) {
        let mut coefficients = Zeroizing::new(vec![0u64; self.layout.n_polys() * N]);
        let (mut excess, mut found) = (0, Choice::from(0));
        for slot in &self.slots {
            let mine = (slot.coefficients.start as u64).ct_eq(&claim.start)
                & (slot.bytes as u64).ct_eq(&claim.bytes)
                & claim.held();
            let mask = u64::conditional_select(&0, &u64::MAX, mine);
            let (inside, outside) = frame.split_at(frame.len().min(slot.coefficients.len()));
            // Which slot is the client's is secret: each is written, its own with the frame, the others with 0.
            for (cell, &symbol) in coefficients[slot.coefficients.clone()].iter_mut().zip(inside) {
                *cell = symbol & mask;
            }
            excess |= outside.iter().fold(0, |bits, &symbol| bits | symbol) & mask;
            found |= mine;
        }
        (PlainPoly::from_scalars(&coefficients), excess, found)
    }
}

/// A client's own slot. Secret like its ticket; wiped on drop.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Claim {
    start: u64,
    bytes: u64,
    /// 1 if there is a slot, else 0.
    held: u8,
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Claim(..)")
    }
}

impl Claim {
    /// First coefficient of the slot.
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// Bytes that the slot carries at most.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether there is a slot at all.
    pub(crate) fn held(&self) -> Choice {
        Choice::from(self.held)
    }
}

/// The beacon of a set of tickets: where the order of the slots begins. The first 8 bytes, little-endian, of
/// the SHA-256 of the sorted distinct tickets.
pub fn beacon(tickets: impl IntoIterator<Item = u64>) -> u64 {
    let mut tickets: Vec<u64> = tickets.into_iter().collect();
    tickets.sort_unstable();
    tickets.dedup();
    let bytes: Vec<u8> = tickets.iter().flat_map(|ticket| ticket.to_le_bytes()).collect();
    let [b0, b1, b2, b3, b4, b5, b6, b7, ..] = tagged_sha256("panetiere/slots/beacon/v1", &[&bytes]);
    u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7])
}

/// Gives out slots: in the order of `ticket - beacon` modulo 2^64, each request gets the next free
/// coefficients if enough are left; a request too large for what is left is passed over. A ticket held
/// several times drops all its holders.
pub fn allocate(reservations: &[Reservation], layout: SlotLayout) -> Schedule {
    let beacon = beacon(reservations.iter().map(|reservation| reservation.ticket));
    let mut ordered = reservations.to_vec();
    ordered.sort_unstable_by_key(|&Reservation { ticket, bytes }| (ticket.wrapping_sub(beacon), bytes));
    let mut schedule = Schedule { layout, slots: Vec::new(), refused: Vec::new() };
    let mut free = 0;
    for holders in ordered.chunk_by(|a, b| a.ticket == b.ticket) {
        let &[reservation] = holders else {
            schedule.refused.extend(holders.iter().map(|&holder| (holder, Refusal::Duplicate)));
            continue;
        };
        match place(reservation, free, &layout) {
            Ok(slot) => {
                free = slot.coefficients.end;
                schedule.slots.push(slot);
            }
            Err(refusal) => schedule.refused.push((reservation, refusal)),
        }
    }
    schedule
}

/// The slot of a request from coefficient `free` on.
fn place(reservation: Reservation, free: usize, layout: &SlotLayout) -> Result<Slot, Refusal> {
    let bytes = usize::try_from(reservation.bytes).ok().filter(|&bytes| bytes <= layout.max_bytes);
    let bytes = bytes.ok_or(Refusal::TooLong)?;
    let end = slot_symbols(bytes).and_then(|symbols| free.checked_add(symbols));
    let end = end.filter(|&end| end <= layout.capacity).ok_or(Refusal::NoRoom)?;
    Ok(Slot { ticket: reservation.ticket, bytes, coefficients: free..end })
}

/// The vector of a client that writes `frame` into its slot: zeros elsewhere, and behind the frame if the slot
/// is longer. Constant time in slot and frame; what shows is the frame's length, so a client hands in as many
/// symbols as the longest slot has, zeros at the end.
///
/// # Errors
/// `SlotOverflow` if something other than 0 would fall behind the end of the slot; `SymbolOutOfRange` for a
/// symbol of more than 35 bits; `NoSlot` if the claim is from another schedule.
pub fn encode_at(claim: &Claim, frame: &[u64], schedule: &Schedule) -> Result<Vec<PlainPoly>, CodecError> {
    if frame.iter().fold(0, |bits, &symbol| bits | symbol) >= SYMBOL_LIMIT {
        return Err(CodecError::SymbolOutOfRange);
    }
    let (vector, excess, found) = schedule.place(claim, frame);
    if !bool::from(found) {
        return Err(CodecError::NoSlot);
    }
    if excess != 0 {
        return Err(CodecError::SlotOverflow);
    }
    Ok(vector)
}

/// The coefficients of some ranges of a summed vector, each range by itself.
///
/// # Errors
/// `RangeOutOfBounds` if a range ends before it starts or behind the polynomials; `CoeffOutOfRange` for a
/// coefficient of more than 35 bits inside a range. Nothing is allocated before all ranges are checked.
pub fn decode_ranges(polys: &[PlainPoly], ranges: &[Range<usize>]) -> Result<Vec<Vec<u64>>, CodecError> {
    // A polynomial in memory is larger than the number of its coefficients.
    let max = polys.len() * N;
    if let Some(&Range { start, end }) =
        ranges.iter().find(|range| range.start > range.end || range.end > max)
    {
        return Err(CodecError::RangeOutOfBounds { start, end, max });
    }
    let read = |index: usize| {
        let value = polys[index / N].coefficients()[index % N];
        if value < SYMBOL_LIMIT { Ok(value) } else { Err(CodecError::CoeffOutOfRange { index, value }) }
    };
    ranges.iter().map(|range| range.clone().map(read).collect()).collect()
}
