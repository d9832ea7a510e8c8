//! Packets with descriptors, and typed messages over the code generated from `schema/cuzk.capnp`.
#[allow(clippy::all, unreachable_pub)]
mod cuzk_capnp {
    include!(concat!(env!("OUT_DIR"), "/cuzk_capnp.rs"));
}
