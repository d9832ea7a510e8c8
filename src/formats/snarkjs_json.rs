//! snarkjs JSON: proof.json, verification_key.json, public.json.
//!
//! Field elements are decimal strings; points are projective with third coordinate 1, G2's
//! coordinates are pairs c0, c1. `vk_alphabeta_12` of a verification key is e(α, β) in the tower
//! `Fp12 = Fp6[w]`, `Fp6 = Fp2[v]`, w² = v, v³ = 1 + u, `Fp2 = Fp[u]`; snarkjs' own verifier does not use it.
//! (<https://github.com/iden3/snarkjs>, `src/groth16_prove.js`, `src/zkey_export_verificationkey.js`.)
use super::{FormatError, decimal, error::Defect, points};
use crate::{
    algebra::{Canonical, Curve, G1, G2, PointError},
    groth16::{PreparedVerifyingKey, Proof, VerifyingKey},
};
use serde::Deserialize;
use serde_json::{json, value::RawValue};

const PROTOCOL: &str = "groth16";
const CURVE: &str = "bls12381";

/// proof.json of a proof.
pub fn proof_to_json(proof: &Proof) -> String {
    let document = json!({
        "pi_a": g1_to_json(&proof.a),
        "pi_b": g2_to_json(&proof.b),
        "pi_c": g1_to_json(&proof.c),
        "protocol": PROTOCOL,
        "curve": CURVE,
    });
    format!("{document:#}")
}

/// Reads proof.json. The points are fully validated; infinity is refused.
pub fn proof_from_json(text: &str) -> Result<Proof, FormatError> {
    #[derive(Deserialize)]
    struct Fields<'a> {
        #[serde(borrow)]
        pi_a: &'a RawValue,
        #[serde(borrow)]
        pi_b: &'a RawValue,
        #[serde(borrow)]
        pi_c: &'a RawValue,
        #[serde(borrow)]
        protocol: &'a RawValue,
        #[serde(borrow)]
        curve: &'a RawValue,
    }
    let document = Document { text };
    let fields: Fields<'_> = document.parse("proof", text, "a snarkjs proof")?;
    document.check_protocol(fields.protocol)?;
    document.check_curve(fields.curve)?;
    Ok(Proof {
        a: document.g1("pi_a", fields.pi_a, 0)?,
        b: document.g2("pi_b", fields.pi_b)?,
        c: document.g1("pi_c", fields.pi_c, 0)?,
    })
}

/// verification_key.json of a key.
pub fn vk_to_json(vk: &VerifyingKey) -> String {
    let alpha_beta = PreparedVerifyingKey::new(vk).alpha_beta_coordinates();
    let digits = alpha_beta.map(|c| decimal::format(&c));
    let tower: Vec<Vec<&[String]>> = digits.chunks(6).map(|fp6| fp6.chunks(2).collect()).collect();
    let document = json!({
        "protocol": PROTOCOL,
        "curve": CURVE,
        "nPublic": vk.ic.len().saturating_sub(1),
        "vk_alpha_1": g1_to_json(&vk.alpha_g1),
        "vk_beta_2": g2_to_json(&vk.beta_g2),
        "vk_gamma_2": g2_to_json(&vk.gamma_g2),
        "vk_delta_2": g2_to_json(&vk.delta_g2),
        "vk_alphabeta_12": tower,
        "IC": vk.ic.iter().map(g1_to_json).collect::<Vec<_>>(),
    });
    format!("{document:#}")
}

/// Reads verification_key.json. The points are fully validated; infinity is refused, and so is a
/// `vk_alphabeta_12` that is not e(α, β); it may be missing. The key has no β and δ in G1.
pub fn vk_from_json(text: &str) -> Result<VerifyingKey, FormatError> {
    #[derive(Deserialize)]
    struct Fields<'a> {
        #[serde(borrow)]
        protocol: &'a RawValue,
        #[serde(borrow)]
        curve: &'a RawValue,
        #[serde(borrow, rename = "nPublic")]
        num_public: &'a RawValue,
        #[serde(borrow)]
        vk_alpha_1: &'a RawValue,
        #[serde(borrow)]
        vk_beta_2: &'a RawValue,
        #[serde(borrow)]
        vk_gamma_2: &'a RawValue,
        #[serde(borrow)]
        vk_delta_2: &'a RawValue,
        #[serde(borrow)]
        vk_alphabeta_12: Option<&'a RawValue>,
        #[serde(borrow, rename = "IC")]
        ic: &'a RawValue,
    }
    let document = Document { text };
    let fields: Fields<'_> = document.parse("verification key", text, "a snarkjs verification key")?;
    document.check_protocol(fields.protocol)?;
    document.check_curve(fields.curve)?;
    let num_public: u32 = document.parse("nPublic", fields.num_public.get(), "a 32-bit number")?;
    let ic: Vec<&RawValue> = document.parse("IC", fields.ic.get(), "an array of points")?;
    let (found, wanted) = (ic.len() as u64, u64::from(num_public) + 1);
    if found != wanted {
        let defect = Defect::Count { what: "the number of points", found, wanted };
        return Err(FormatError::malformed("IC", document.offset(fields.ic.get()), defect));
    }
    let vk = VerifyingKey {
        alpha_g1: document.g1("vk_alpha_1", fields.vk_alpha_1, 0)?,
        beta_g1: None,
        beta_g2: document.g2("vk_beta_2", fields.vk_beta_2)?,
        gamma_g2: document.g2("vk_gamma_2", fields.vk_gamma_2)?,
        delta_g1: None,
        delta_g2: document.g2("vk_delta_2", fields.vk_delta_2)?,
        ic: ic.iter().zip(0..).map(|(p, index)| document.g1("IC", p, index)).collect::<Result<_, _>>()?,
    };
    if let Some(raw) = fields.vk_alphabeta_12 {
        document.check_alpha_beta(raw, &vk)?;
    }
    Ok(vk)
}

/// public.json: the public inputs without ONE.
pub fn public_to_json(inputs: &[Canonical]) -> String {
    let digits: Vec<String> = inputs
        .iter()
        .map(|input| {
            let mut bytes = input.to_le_bytes();
            bytes.reverse();
            decimal::format(&bytes)
        })
        .collect();
    format!("{:#}", json!(digits))
}

/// Reads public.json; every value must be below r.
pub fn public_from_json(text: &str) -> Result<Vec<Canonical>, FormatError> {
    const SECTION: &str = "public inputs";
    let document = Document { text };
    let values: Vec<&RawValue> = document.parse(SECTION, text, "an array of decimal strings")?;
    let scalar = |(raw, index): (&&RawValue, u64)| {
        let digits: String = document.parse(SECTION, raw.get(), "a decimal string")?;
        let value = decimal::parse::<32>(&digits).and_then(|mut bytes| {
            bytes.reverse();
            Canonical::from_le_bytes(&bytes)
        });
        value.ok_or_else(|| {
            let defect = Defect::Scalar { index, found: shorten(&digits) };
            FormatError::malformed(SECTION, document.offset(raw.get()), defect)
        })
    };
    values.iter().zip(0..).map(scalar).collect()
}

fn g1_to_json(point: &<G1 as Curve>::Affine) -> serde_json::Value {
    let [x, y] = decimals::<G1, 2>(point);
    json!([x, y, "1"])
}

fn g2_to_json(point: &<G2 as Curve>::Affine) -> serde_json::Value {
    let [x0, x1, y0, y1] = decimals::<G2, 4>(point);
    json!([[x0, x1], [y0, y1], ["1", "0"]])
}

fn decimals<C: Curve, const N: usize>(point: &C::Affine) -> [String; N] {
    let coordinates = C::coordinates_be(point);
    std::array::from_fn(|i| coordinates.get(i).map(|c| decimal::format(c)).unwrap_or_default())
}

/// A text, to place its parts in.
struct Document<'a> {
    text: &'a str,
}

impl<'a> Document<'a> {
    /// Where `part`, a slice of the text, begins.
    fn offset(&self, part: &str) -> u64 {
        (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize) as u64
    }

    fn parse<T: Deserialize<'a>>(
        &self,
        section: &'static str,
        part: &'a str,
        wanted: &'static str,
    ) -> Result<T, FormatError> {
        serde_json::from_str(part).map_err(|error| {
            let lines = part.split_inclusive('\n').take(error.line().saturating_sub(1));
            let within = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
            let within = if error.is_eof() { part.len() } else { within.min(part.len()) };
            let offset = self.offset(part) + within as u64;
            // The parser quotes what it found, whole.
            let found = shorten(&error.to_string());
            FormatError::malformed(section, offset, Defect::Json { found, wanted })
        })
    }

    fn check_protocol(&self, raw: &'a RawValue) -> Result<(), FormatError> {
        const SECTION: &str = "protocol";
        let found: String = self.parse(SECTION, raw.get(), "a string")?;
        if found == PROTOCOL {
            return Ok(());
        }
        Err(self.value(SECTION, raw, "the protocol", &found, PROTOCOL))
    }

    fn check_curve(&self, raw: &'a RawValue) -> Result<(), FormatError> {
        const SECTION: &str = "curve";
        let found: String = self.parse(SECTION, raw.get(), "a string")?;
        // snarkjs itself compares names without case and punctuation.
        let letters = found.chars().filter(char::is_ascii_alphanumeric);
        if letters.map(|c| c.to_ascii_lowercase()).eq(CURVE.chars()) {
            return Ok(());
        }
        Err(self.value(SECTION, raw, "the curve", &found, CURVE))
    }

    /// The error for a wrong value.
    fn value(
        &self,
        section: &'static str,
        raw: &RawValue,
        what: &'static str,
        found: &str,
        wanted: &str,
    ) -> FormatError {
        let defect = Defect::Value { what, found: shorten(found), wanted: wanted.into() };
        FormatError::malformed(section, self.offset(raw.get()), defect)
    }

    fn g1(
        &self,
        section: &'static str,
        raw: &'a RawValue,
        index: u64,
    ) -> Result<<G1 as Curve>::Affine, FormatError> {
        let parts: [&RawValue; 3] = self.parse(section, raw.get(), "an array of 3 coordinates")?;
        self.point::<G1>(section, raw, index, &parts)
    }

    fn g2(&self, section: &'static str, raw: &'a RawValue) -> Result<<G2 as Curve>::Affine, FormatError> {
        let wanted = "an array of 3 pairs of coordinates";
        let coordinates: [&RawValue; 3] = self.parse(section, raw.get(), wanted)?;
        let mut parts = Vec::new();
        for pair in coordinates {
            let pair: [&RawValue; 2] = self.parse(section, pair.get(), "a pair of coordinates")?;
            parts.extend(pair);
        }
        self.point::<G2>(section, raw, 0, &parts)
    }

    /// `parts`: the numbers in the three coordinates, one each in G1, two in G2.
    fn point<C: Curve>(
        &self,
        section: &'static str,
        raw: &RawValue,
        index: u64,
        parts: &[&'a RawValue],
    ) -> Result<C::Affine, FormatError> {
        let bad = |error| {
            let defect = Defect::Point { group: C::NAME, index, error };
            FormatError::malformed(section, self.offset(raw.get()), defect)
        };
        let (affine, third) = parts.split_at(parts.len() / 3 * 2);
        let mut found: Vec<String> = Vec::new();
        for part in third {
            found.push(self.parse(section, part.get(), "a decimal string")?);
        }
        if found.iter().all(|c| c == "0") {
            return Err(bad(PointError::Infinity));
        }
        let one = &["1", "0"][..third.len()];
        if found != one {
            return Err(self.value(
                section,
                third[0],
                "the third coordinate",
                &found.join(", "),
                &one.join(", "),
            ));
        }
        let mut coordinates = Vec::new();
        for coordinate in affine {
            let digits: String = self.parse(section, coordinate.get(), "a decimal string")?;
            // What is not decimal, or is far too long, is not a field element either.
            coordinates.push(decimal::parse::<48>(&digits).ok_or_else(|| bad(PointError::NotCanonical))?);
        }
        C::from_coordinates_be(&coordinates).and_then(points::acceptable::<C>).map_err(bad)
    }

    fn check_alpha_beta(&self, raw: &'a RawValue, vk: &VerifyingKey) -> Result<(), FormatError> {
        const SECTION: &str = "vk_alphabeta_12";
        let found: [[[String; 2]; 3]; 2] =
            self.parse(SECTION, raw.get(), "2 arrays of 3 pairs of decimal strings")?;
        let wanted = PreparedVerifyingKey::new(vk).alpha_beta_coordinates().map(|c| decimal::format(&c));
        match found.iter().flatten().flatten().zip(&wanted).find(|(f, w)| f != w) {
            None => Ok(()),
            Some((found, wanted)) => {
                Err(self.value(SECTION, raw, "a coordinate of e(alpha, beta)", found, wanted))
            }
        }
    }
}

/// At most 120 characters of a hostile string.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(120) {
        None => text.into(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
