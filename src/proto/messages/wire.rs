//! What all messages share: framing, limits, and the reading of single fields.
use super::ErrorCode;
use crate::proto::MAX_NAME_BYTES;
use capnp::{Word, message};
use std::time::Duration;

/// Bytes of a segment table that describes one segment.
const SEGMENT_TABLE_BYTES: usize = 8;
/// Messages nest at most status → jobs → partitions → text; deeper ones are malformed.
const NESTING_LIMIT: i32 = 8;

/// A packet that is no valid message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct DecodeError {
    /// The message's id, 0 where it could not be read.
    pub id: u64,
    /// What is wrong with it.
    pub problem: DecodeProblem,
}

impl DecodeError {
    /// The code that answers such a message.
    pub fn code(&self) -> ErrorCode {
        match self.problem {
            DecodeProblem::UnknownMessage { .. } => ErrorCode::UnsupportedRequest,
            _ => ErrorCode::Malformed,
        }
    }
}

/// Why a packet is no valid message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeProblem {
    /// Too short for a segment table, or longer than allowed.
    #[error("the message has {found} bytes, wanted {min} to {max}")]
    Size {
        /// Bytes received.
        found: usize,
        /// Bytes of the shortest message.
        min: usize,
        /// Bytes of the longest message.
        max: usize,
    },
    /// More than one segment.
    #[error("the message has {found} segments, wanted 1")]
    Segments {
        /// Segments that the table announces.
        found: u64,
    },
    /// The segment table contradicts the packet.
    #[error("the segment table announces {announced} bytes, the packet holds {found}")]
    Length {
        /// Bytes by the segment table, itself included.
        announced: u64,
        /// Bytes received.
        found: usize,
    },
    /// A pointer, list or struct that is invalid by Cap'n Proto's own rules.
    #[error("the message is no valid Cap'n Proto: {reason}")]
    Encoding {
        /// What the decoder objected to.
        reason: String,
    },
    /// A member of the message's union that this version does not know.
    #[error("message type {found} is unknown to protocol version {version}")]
    UnknownMessage {
        /// The union's discriminant.
        found: u16,
        /// The version spoken here.
        version: u32,
    },
    /// An enumeration's value that this version does not know.
    #[error("{field} has the unknown value {found}")]
    UnknownValue {
        /// The field's name in the schema.
        field: &'static str,
        /// The value.
        found: u16,
    },
    /// A text or data field of the wrong length.
    #[error("{field} has {found} bytes, wanted {wanted}")]
    FieldLength {
        /// The field's name in the schema.
        field: &'static str,
        /// Its length in bytes.
        found: usize,
        /// The lengths allowed.
        wanted: &'static str,
    },
    /// A text that is not UTF-8, or a name with control characters.
    #[error("{field} is not {wanted}")]
    Text {
        /// The field's name in the schema.
        field: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// A list with more entries than the message could hold.
    #[error("{field} has {found} entries, wanted at most {max}")]
    ListLength {
        /// The field's name in the schema.
        field: &'static str,
        /// Entries announced.
        found: u32,
        /// Entries allowed.
        max: u32,
    },
}

impl From<capnp::Error> for DecodeProblem {
    fn from(error: capnp::Error) -> Self {
        Self::Encoding { reason: error.to_string() }
    }
}

/// The single segment of a message, copied to where the Cap'n Proto reader wants it: aligned.
pub(crate) struct Segment(Vec<Word>);

impl Segment {
    pub(crate) fn from_packet(packet: &[u8], max: usize) -> Result<Self, DecodeProblem> {
        let size =
            || DecodeProblem::Size { found: packet.len(), min: SEGMENT_TABLE_BYTES + size_of::<Word>(), max };
        if packet.len() > max {
            return Err(size());
        }
        let (table, body) = packet.split_first_chunk::<SEGMENT_TABLE_BYTES>().ok_or_else(size)?;
        let [c0, c1, c2, c3, w0, w1, w2, w3] = *table;
        let segments = u64::from(u32::from_le_bytes([c0, c1, c2, c3])) + 1;
        if segments != 1 {
            return Err(DecodeProblem::Segments { found: segments });
        }
        let words = u64::from(u32::from_le_bytes([w0, w1, w2, w3]));
        if words * size_of::<Word>() as u64 != body.len() as u64 {
            let announced = words * size_of::<Word>() as u64 + SEGMENT_TABLE_BYTES as u64;
            return Err(DecodeProblem::Length { announced, found: packet.len() });
        }
        if body.is_empty() {
            return Err(size());
        }
        let mut aligned = Word::allocate_zeroed_vec(body.len() / size_of::<Word>());
        Word::words_to_bytes_mut(&mut aligned).copy_from_slice(body);
        Ok(Self(aligned))
    }

    /// The most entries that an honest list of structs can have: each takes a word or more. A list of
    /// empty or one-byte structs, which Cap'n Proto would accept, could otherwise multiply memory.
    pub(super) fn max_entries(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// Reads the message's root with `read`. The traversal limit is the message's own length: an
    /// honest message holds each object once.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&message::Reader<message::SegmentArray<'_>>) -> R) -> R {
        let segments = [Word::words_to_bytes(&self.0)];
        let mut options = message::ReaderOptions::new();
        options.traversal_limit_in_words(Some(self.0.len())).nesting_limit(NESTING_LIMIT);
        read(&message::Reader::new(message::SegmentArray::new(&segments), options))
    }
}

/// Encodes a message in one segment.
pub(crate) fn encode(fill: impl Fn(&mut message::Builder<message::HeapAllocator>)) -> Vec<u8> {
    let mut words = 128;
    loop {
        let allocator = message::HeapAllocator::new().first_segment_words(words);
        let mut builder = message::Builder::new(allocator);
        fill(&mut builder);
        let segments = builder.get_segments_for_output();
        if let [segment] = segments[..] {
            let count = (segment.len() / size_of::<Word>()) as u32;
            let mut packet = Vec::with_capacity(SEGMENT_TABLE_BYTES + segment.len());
            packet.extend_from_slice(&0u32.to_le_bytes());
            packet.extend_from_slice(&count.to_le_bytes());
            packet.extend_from_slice(segment);
            return packet;
        }
        // It did not fit the first segment; pointers across segments only take room, so the sum does.
        words = segments.iter().map(|segment| (segment.len() / size_of::<Word>()) as u32).sum();
    }
}

/// A text of any length.
pub(crate) fn text(
    field: &'static str,
    text: capnp::Result<capnp::text::Reader<'_>>,
) -> Result<String, DecodeProblem> {
    text?.to_string().map_err(|_| DecodeProblem::Text { field, wanted: "UTF-8" })
}

/// The name of a client or a circuit.
pub(crate) fn name(
    field: &'static str,
    reader: capnp::Result<capnp::text::Reader<'_>>,
) -> Result<String, DecodeProblem> {
    let reader = reader?;
    let found = reader.len();
    if !(1..=MAX_NAME_BYTES).contains(&found) {
        return Err(DecodeProblem::FieldLength { field, found, wanted: "1 to 128" });
    }
    let name = text(field, Ok(reader))?;
    if name.chars().any(char::is_control) {
        return Err(DecodeProblem::Text { field, wanted: "free of control characters" });
    }
    Ok(name)
}

/// Data of exactly N bytes.
pub(crate) fn fixed<const N: usize>(
    field: &'static str,
    data: capnp::Result<capnp::data::Reader<'_>>,
    wanted: &'static str,
) -> Result<[u8; N], DecodeProblem> {
    let data = data?;
    data.try_into().map_err(|_| DecodeProblem::FieldLength { field, found: data.len(), wanted })
}

/// Data of exactly N bytes, or empty.
pub(super) fn fixed_or_empty<const N: usize>(
    field: &'static str,
    data: capnp::Result<capnp::data::Reader<'_>>,
    wanted: &'static str,
) -> Result<Option<[u8; N]>, DecodeProblem> {
    match data? {
        [] => Ok(None),
        data => fixed(field, Ok(data), wanted).map(Some),
    }
}

/// A list's length, once checked against what the message can hold.
pub(super) fn entries(field: &'static str, found: u32, max: u32) -> Result<usize, DecodeProblem> {
    if found > max {
        return Err(DecodeProblem::ListLength { field, found, max });
    }
    Ok(found as usize)
}

/// The length that a list builder wants. Lists hold partitions, circuits and jobs of one host: they stay
/// far below Cap'n Proto's 2^29 entries.
pub(super) fn count<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

/// Whole milliseconds: what does not fit 64 bits is no time that anything takes.
pub(crate) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Whole nanoseconds, likewise.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A deadline in milliseconds, 0 for none: so that a deadline has one at least.
pub(crate) fn deadline_ms(deadline: Option<Duration>) -> u64 {
    deadline.map_or(0, |after| milliseconds(after).max(1))
}

/// The deadline of so many milliseconds.
pub(crate) fn deadline(ms: u64) -> Option<Duration> {
    (ms > 0).then(|| Duration::from_millis(ms))
}

/// An enumeration of the schema as a plain type: its variants, their names in the schema, and the
/// conversions from and to the generated type. A variant missing on either side does not compile.
macro_rules! wire_enum {
    ($(#[$meta:meta])* $name:ident, $field:literal { $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_meta])* $variant,)+ }

        impl $name {
            /// Every value, in the schema's order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The value's name in the schema.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            pub(crate) fn from_wire(
                value: Result<crate::proto::cuzk_capnp::$name, ::capnp::NotInSchema>,
            ) -> Result<Self, $crate::proto::DecodeProblem> {
                match value {
                    $(Ok(crate::proto::cuzk_capnp::$name::$variant) => Ok(Self::$variant),)+
                    Err(::capnp::NotInSchema(found)) => {
                        Err($crate::proto::DecodeProblem::UnknownValue { field: $field, found })
                    }
                }
            }

            pub(crate) fn to_wire(self) -> crate::proto::cuzk_capnp::$name {
                match self { $(Self::$variant => crate::proto::cuzk_capnp::$name::$variant,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
pub(super) use wire_enum;
