//! A proof and its 192-byte encoding.
use crate::algebra::{Curve, G1, G1Affine, G2, G2Affine, PointError};

/// A proof that nobody may have checked yet; see [`super::VerifiedProof`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// A of the paper.
    pub a: G1Affine,
    /// B of the paper.
    pub b: G2Affine,
    /// C of the paper.
    pub c: G1Affine,
}

/// Bytes that are not a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("proof element {element}: {error}")]
pub struct ProofError {
    /// 'a', 'b' or 'c'.
    pub element: char,
    /// What is wrong with the point.
    pub error: PointError,
}

const A: std::ops::Range<usize> = 0..48;
const B: std::ops::Range<usize> = 48..144;
const C: std::ops::Range<usize> = 144..192;

impl Proof {
    /// a ‖ b ‖ c, compressed Zcash encoding: 48 + 96 + 48 bytes, as bellman, Zcash and Filecoin use it.
    pub fn to_bytes(&self) -> [u8; 192] {
        let mut out = [0; 192];
        G1::to_compressed(&self.a, &mut out[A]);
        G2::to_compressed(&self.b, &mut out[B]);
        G1::to_compressed(&self.c, &mut out[C]);
        out
    }

    /// The inverse of [`Self::to_bytes`]. Checks encodings and subgroups, and refuses infinity as
    /// bellman's reader does.
    pub fn from_bytes(bytes: &[u8; 192]) -> Result<Self, ProofError> {
        fn element<G: Curve>(name: char, bytes: &[u8]) -> Result<G::Affine, ProofError> {
            match G::from_compressed(bytes) {
                Ok(p) if G::is_infinity(&p) => Err(ProofError { element: name, error: PointError::Infinity }),
                Ok(p) => Ok(p),
                Err(error) => Err(ProofError { element: name, error }),
            }
        }
        Ok(Self {
            a: element::<G1>('a', &bytes[A])?,
            b: element::<G2>('b', &bytes[B])?,
            c: element::<G1>('c', &bytes[C])?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generators() -> Proof {
        Proof { a: G1::generator(), b: G2::generator(), c: G1::neg(&G1::generator()) }
    }

    #[test]
    fn bytes_round_trip() {
        let proof = generators();
        let bytes = proof.to_bytes();
        assert_eq!(Proof::from_bytes(&bytes), Ok(proof));
        // The compressed generators as the BLS12-381 literature prints them.
        assert_eq!(bytes[..4], [0x97, 0xf1, 0xd3, 0xa7]);
        assert_eq!(bytes[48..52], [0x93, 0xe0, 0x2b, 0x60]);
        assert_eq!(bytes[144..148], [0xb7, 0xf1, 0xd3, 0xa7]);
    }

    #[test]
    fn refusals_name_the_element() {
        let good = generators().to_bytes();
        for (element, at) in [('a', 0), ('b', 48), ('c', 144)] {
            let length = if element == 'b' { 96 } else { 48 };
            let mut infinite = good;
            infinite[at..at + length].fill(0);
            infinite[at] = 0xc0;
            let error = PointError::Infinity;
            assert_eq!(Proof::from_bytes(&infinite), Err(ProofError { element, error }));
            let mut uncompressed = good;
            uncompressed[at] &= 0x7f;
            let refused = Proof::from_bytes(&uncompressed).unwrap_err();
            assert_eq!(refused.element, element);
            assert!(matches!(refused.error, PointError::Flags { .. }), "{refused}");
            let mut large = good;
            large[at..at + 48].fill(0xff);
            large[at] = 0x9f;
            let error = PointError::NotCanonical;
            assert_eq!(Proof::from_bytes(&large), Err(ProofError { element, error }));
        }
    }
}
