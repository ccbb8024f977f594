//! Stories through the real parts.

mod sandbox;
