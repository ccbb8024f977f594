//! The stories of the product, told through its public doors.

mod webhooks;
