//! Rebuilds the crate when a migration is added: the migrations are embedded by a macro that cannot watch their folder.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
