//! What goes on beside the window's thread: work in the background, the service that leads engines, and the reading of
//! the cards. All of it comes back through channels that the app empties in its logic.

mod client;
mod faces;
mod look;
mod pick;
mod sampling;
mod work;

pub use client::{Client, ClientError, Heard};
pub use faces::SystemFaces;
pub use look::{look, plan_request};
pub use pick::{Pick, pick, pick_new};
pub use sampling::Sampling;
pub use work::{Done, Work, Workers};
