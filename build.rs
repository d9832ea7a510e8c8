//! Generates the protocol's Rust code from `schema/cuzk.capnp` (needs the `capnp` compiler, Debian's
//! package capnproto) and fixes the build id.
fn main() {
    println!("cargo:rerun-if-changed=schema/cuzk.capnp");
    if std::env::var_os("CARGO_FEATURE_CLIENT").is_some() {
        capnpc::CompilerCommand::new()
            .default_parent_module(vec!["proto".into()])
            .src_prefix("schema")
            .file("schema/cuzk.capnp")
            .run()
            .expect("compiling schema/cuzk.capnp: is `capnp` installed?");
    }
}
