//! Work that takes a while, such as unmapping a large file, done from a task without holding up others.
use tokio::runtime::RuntimeFlavor;

/// Drops what may hold gigabytes, which takes a while, without keeping other tasks from running.
pub(super) fn drop_slowly<T>(thing: T) {
    slowly(|| drop(thing));
}

/// Does what takes a while without holding up the other tasks of the runtime's thread.
pub(super) fn slowly(work: impl FnOnce()) {
    match tokio::runtime::Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
