//! arkworks' keys and proofs in the forms that bellman's world uses: arkworks keeps points at infinity
//! in its a and b queries, bellman's files leave them out.
use ark_bls12_381::Bls12_381;
use ark_ec::AffineRepr;
use ark_groth16::{Proof, ProvingKey};
use ark_serialize::{CanonicalDeserialize, CanonicalSerialize};

/// bellman's `.params` of an arkworks key. Both use the Zcash encoding of points.
pub fn params(key: &ProvingKey<Bls12_381>) -> Vec<u8> {
    let mut out = Vec::new();
    let vk = &key.vk;
    put(&mut out, &[vk.alpha_g1, key.beta_g1]);
    put(&mut out, &[vk.beta_g2, vk.gamma_g2]);
    put(&mut out, &[key.delta_g1]);
    put(&mut out, &[vk.delta_g2]);
    for query in [&vk.gamma_abc_g1, &key.h_query, &key.l_query, &key.a_query, &key.b_g1_query] {
        put_query(&mut out, query);
    }
    put_query(&mut out, &key.b_g2_query);
    out
}

fn put_query<P: AffineRepr>(out: &mut Vec<u8>, query: &[P]) {
    let finite: Vec<_> = query.iter().filter(|p| !p.is_zero()).copied().collect();
    out.extend((finite.len() as u32).to_be_bytes());
    put(out, &finite);
}

fn put<P: CanonicalSerialize>(out: &mut Vec<u8>, points: &[P]) {
    for point in points {
        point.serialize_uncompressed(&mut *out).expect("writing to a vector does not fail");
    }
}

/// An arkworks proof of the 192 bytes that bellman writes, with all of arkworks' checks.
pub fn proof(bytes: &[u8; 192]) -> Proof<Bls12_381> {
    Proof::deserialize_compressed(&bytes[..]).expect("a proof that arkworks accepts as such")
}

/// The 192 bytes of an arkworks proof.
pub fn bytes(proof: &Proof<Bls12_381>) -> [u8; 192] {
    let mut out = Vec::new();
    proof.serialize_compressed(&mut out).expect("writing to a vector does not fail");
    out.try_into().expect("three compressed points")
}
