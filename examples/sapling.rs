//! t
#[path = "../tests/support/sapling.rs"]
mod sapling;
use sapling_crypto::prover::*;
fn main() {
    let (s, o) = wagyu_zcash_parameters::load_sapling_parameters();
    let sp = sapling_crypto::circuit::SpendParameters::read(&s[..], false).unwrap();
    let op = sapling_crypto::circuit::OutputParameters::read(&o[..], false).unwrap();
    let mut rng = rand::rng();
    let (c, check) = sapling::spend(&sp, &mut rng);
    let p = sp.create_proof(c, &mut rng);
    let mut b = sapling_crypto::circuit::SpendParameters::encode_proof(p);
    println!("{}", check(&b));
    let (c, check) = sapling::output(&op, &mut rng);
    b = sapling_crypto::circuit::OutputParameters::encode_proof(op.create_proof(c, &mut rng));
    println!("{}", check(&b));
    b[3] ^= 1;
    println!("{}", check(&b));
}
