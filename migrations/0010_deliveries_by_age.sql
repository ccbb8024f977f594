-- Old deliveries are found without looking at the others.
create index deliveries_by_age on deliveries (received_ms);
