//! The stories: what the product promises, told from outside.

mod demo_forge;
