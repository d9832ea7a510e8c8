//! Damaged snarkjs JSON.
use super::{assert_refused, outside_subgroup};
use crate::support::fixture;
use cuzk::{
    algebra::{Canonical, Curve, G1, G2, PointError},
    formats::{Defect, FormatError, decimal, snarkjs_json as json},
};

fn text(name: &str) -> String {
    std::fs::read_to_string(fixture("circom").join(name)).unwrap()
}

/// Replaces what stands first after `anchor`, and returns where.
fn replaced(text: &str, anchor: &str, old: &str, new: &str) -> (String, usize) {
    let from = text.find(anchor).unwrap_or_else(|| panic!("no {anchor}"));
    let at = from + text[from..].find(old).unwrap_or_else(|| panic!("no {old} after {anchor}"));
    (format!("{}{new}{}", &text[..at], &text[at + old.len()..]), at)
}

/// The first quoted number after the anchor.
fn number<'a>(text: &'a str, anchor: &str) -> &'a str {
    let from = text.find(anchor).unwrap() + anchor.len();
    let start = from + text[from..].find(|c: char| c.is_ascii_digit()).unwrap();
    let end = start + text[start..].find('"').unwrap();
    &text[start - 1..=end]
}

const Q: &str = "4002409555221667393417789825735904156556882819939007885332058136124031650490837864442687629129015664037894272559787";
const R: &str = "52435875175126190479447740508185965837690552500527637822603658699938581184513";

#[test]
fn what_was_written_is_read() {
    let vk = json::vk_from_json(&text("merkle.verification_key.json")).unwrap();
    let proof = json::proof_from_json(&text("merkle.proof.json")).unwrap();
    let public = json::public_from_json(&text("merkle.public.json")).unwrap();
    assert_eq!(json::proof_from_json(&json::proof_to_json(&proof)).unwrap(), proof);
    assert_eq!(json::public_from_json(&json::public_to_json(&public)).unwrap(), public);
    assert!(json::public_from_json(&json::public_to_json(&[])).unwrap().is_empty());
    assert!(json::vk_from_json(&json::vk_to_json(&vk)).unwrap() == vk);
    // The same documents as snarkjs', up to the order of the fields.
    let same = |ours: &str, theirs: &str| {
        let value = |s: &str| serde_json::from_str::<serde_json::Value>(s).unwrap();
        assert_eq!(value(ours), value(theirs));
    };
    same(&json::vk_to_json(&vk), &text("merkle.verification_key.json"));
    same(&json::proof_to_json(&proof), &text("merkle.proof.json"));
    same(&json::public_to_json(&public), &text("merkle.public.json"));
}

#[test]
fn messages_are_short_whatever_the_text_holds() {
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    let vk = text("merkle.verification_key.json");
    let of_field = json::vk_from_json(&replaced(&vk, "nPublic", "2", &long).0).err().unwrap();
    let of_document = json::proof_from_json(&long).err().unwrap();
    for error in [of_field, of_document] {
        let message = error.to_string();
        assert!(message.contains("xxx") && message.len() < 300, "{} bytes", message.len());
    }
}

#[test]
fn proofs() {
    let good = text("merkle.proof.json");
    let value =
        |what, found: &str, wanted: &str| Defect::Value { what, found: found.into(), wanted: wanted.into() };
    let refuses = |damage: &str, (text, at): (String, usize), section: &str, defect| {
        assert_refused(damage, json::proof_from_json(&text), section, at, defect);
    };
    let protocol = replaced(&good, "protocol", "\"groth16\"", "\"plonk\"");
    refuses("protocol", protocol, "protocol", value("the protocol", "plonk", "groth16"));
    let curve = replaced(&good, "curve", "\"bls12381\"", "\"bn128\"");
    refuses("curve", curve, "curve", value("the curve", "bn128", "bls12381"));
    let spelled = replaced(&good, "curve", "\"bls12381\"", "\"BLS12-381\"").0;
    json::proof_from_json(&spelled).unwrap();

    let third = "the third coordinate";
    refuses("pi_a z", replaced(&good, "pi_a", "\"1\"", "\"2\""), "pi_a", value(third, "2", "1"));
    refuses("pi_b z", replaced(&good, "pi_b", "\"1\"", "\"2\""), "pi_b", value(third, "2, 0", "1, 0"));
    let point = |group, error| Defect::Point { group, index: 0, error };
    for (section, group) in [("pi_a", "G1"), ("pi_b", "G2"), ("pi_c", "G1")] {
        let start = good.find(section).unwrap();
        let at = start + good[start..].find('[').unwrap();
        let refuses = |damage: &str, text: String, error| {
            refuses(&format!("{section}: {damage}"), (text, at), section, point(group, error));
        };
        refuses("infinity", replaced(&good, section, "\"1\"", "\"0\"").0, PointError::Infinity);
        let first = number(&good, &format!("\"{section}\""));
        for (damage, text) in
            [("q", Q), ("hex", "0x10"), ("negative", "-1"), ("empty", ""), ("leading zero", "01")]
        {
            let text = replaced(&good, section, first, &format!("\"{text}\"")).0;
            refuses(damage, text, PointError::NotCanonical);
        }
        let long = format!("\"{}\"", "7".repeat(100_000));
        refuses("long", replaced(&good, section, first, &long).0, PointError::NotCanonical);
        refuses("moved", replaced(&good, section, first, "\"5\"").0, PointError::NotOnCurve);
        let outside = if group == "G1" { coordinates::<G1>() } else { coordinates::<G2>() };
        let end = at + good[at..].find("\"1\"").unwrap();
        let inside = if group == "G1" {
            format!("[\"{}\",\"{}\",", outside[0], outside[1])
        } else {
            format!("[[\"{}\",\"{}\"],[\"{}\",\"{}\"],[", outside[0], outside[1], outside[2], outside[3])
        };
        refuses("subgroup", format!("{}{inside}{}", &good[..at], &good[end..]), PointError::NotInSubgroup);
    }
}

fn coordinates<C: Curve>() -> Vec<String> {
    let point = C::from_uncompressed(&outside_subgroup::<C>()).unwrap();
    C::coordinates_be(&point).iter().map(|c| decimal::format(c)).collect()
}

#[test]
fn shapes() {
    let proof = text("merkle.proof.json");
    let vk = text("merkle.verification_key.json");
    let public = text("merkle.public.json");
    // A refusal as JSON, in this section, at this offset.
    fn refuses<T>(
        damage: &str,
        result: Result<T, FormatError>,
        section: &str,
        offset: Option<usize>,
        says: &str,
    ) {
        let error = result.err().unwrap_or_else(|| panic!("{damage}: accepted"));
        let (found_section, found_offset, defect) = error.place().unwrap();
        assert_eq!(found_section, section, "{damage}: {error}");
        assert!(offset.is_none_or(|offset| found_offset == offset as u64), "{damage}: {error}");
        let Defect::Json { found, wanted } = defect else { panic!("{damage}: {error}") };
        assert!(found.contains(says), "{damage}: {error}");
        assert!(!wanted.is_empty());
    }
    // Without its white space at the end no JSON text can lose a byte.
    for (name, text) in [("proof", &proof), ("verification key", &vk), ("public inputs", &public)] {
        for cut in (0..text.trim_end().len()).step_by(if name == "verification key" { 7 } else { 1 }) {
            let cut_text = &text[..cut];
            let damage = format!("{name} cut at {cut}");
            match name {
                "proof" => refuses(&damage, json::proof_from_json(cut_text), name, Some(cut), "EOF"),
                "public inputs" => {
                    refuses(&damage, json::public_from_json(cut_text), name, Some(cut), "EOF");
                }
                _ => refuses(&damage, json::vk_from_json(cut_text), name, None, "EOF"),
            }
        }
    }
    let tail = format!("{proof}x");
    refuses("tail", json::proof_from_json(&tail), "proof", Some(proof.len()), "trailing");
    refuses("array", json::proof_from_json(&public), "proof", None, "invalid length");
    let (renamed, _) = replaced(&proof, "{", "pi_b", "pi_x");
    refuses("no pi_b", json::proof_from_json(&renamed), "proof", None, "missing field `pi_b`");
    let (doubled, _) = replaced(&proof, "{", "{", "{\"pi_a\":[],");
    refuses("two pi_a", json::proof_from_json(&doubled), "proof", None, "duplicate field `pi_a`");
    let (short, at) = replaced(&proof, "pi_a", "\"1\"", "");
    let (short, _) = (short.replacen(",\n  \n", "\n", 1), at);
    refuses("two coordinates", json::proof_from_json(&short), "pi_a", None, "");
    let (bare, at) = replaced(&public, "[", number(&public, "["), "17");
    refuses("a bare number", json::public_from_json(&bare), "public inputs", Some(at + 1), "invalid type");
    let (negative, _) = replaced(&vk, "nPublic", "2", "-2");
    refuses("nPublic", json::vk_from_json(&negative), "nPublic", None, "invalid value");
    refuses("deep", json::proof_from_json(&"[".repeat(100_000)), "proof", None, "");
}

#[test]
fn verification_keys() {
    let good = text("merkle.verification_key.json");
    let at_ic = good.find("\"IC\"").unwrap() + good[good.find("\"IC\"").unwrap()..].find('[').unwrap();
    for found in ["0", "1", "3", "4294967295"] {
        let (text, _) = replaced(&good, "nPublic", "2", found);
        let at = at_ic + text.len() - good.len();
        let wanted = found.parse::<u64>().unwrap() + 1;
        let defect = Defect::Count { what: "the number of points", found: 3, wanted };
        assert_refused("nPublic", json::vk_from_json(&text), "IC", at, defect);
    }
    for (section, group) in
        [("vk_alpha_1", "G1"), ("vk_beta_2", "G2"), ("vk_gamma_2", "G2"), ("vk_delta_2", "G2"), ("IC", "G1")]
    {
        let anchor = format!("\"{section}\"");
        let first = number(&good, &anchor);
        let (text, mut at) = replaced(&good, &anchor, first, "\"5\"");
        at = text[..at].rfind('[').unwrap();
        if group == "G2" {
            at = text[..at].rfind('[').unwrap();
        }
        let defect = Defect::Point { group, index: 0, error: PointError::NotOnCurve };
        assert_refused(section, json::vk_from_json(&text), section, at, defect);
    }
    let old = number(&good, "\"vk_alphabeta_12\"");
    let (text, at) = replaced(&good, "vk_alphabeta_12", old, "\"5\"");
    let defect = Defect::Value {
        what: "a coordinate of e(alpha, beta)",
        found: "5".into(),
        wanted: old.trim_matches('"').into(),
    };
    let at = at - text[..at].chars().rev().position(|c| c == ':').unwrap() + 1;
    assert_refused("vk_alphabeta_12", json::vk_from_json(&text), "vk_alphabeta_12", at, defect);
    let (without, _) = replaced(&good, "{", "vk_alphabeta_12", "unused");
    json::vk_from_json(&without).unwrap();
}

#[test]
fn public_inputs() {
    assert_eq!(json::public_from_json("[]").unwrap(), []);
    let last = decimal::parse::<32>(R).map(|mut b| {
        b[31] -= 1;
        b
    });
    let text = format!("[\"0\", \"{}\"]", decimal::format(&last.unwrap()));
    let values = json::public_from_json(&text).unwrap();
    assert_eq!(values, [Canonical::ZERO, Canonical::ZERO - Canonical::ONE]);
    for bad in [R, "-1", "1.0", "01", "", "0x1"] {
        let text = format!("[\"0\", \"{bad}\"]");
        let defect = Defect::Scalar { index: 1, found: bad.into() };
        assert_refused(bad, json::public_from_json(&text), "public inputs", 6, defect);
    }
}
