-- What happened in a run is read while it goes on.
create index audit_events_of_run on audit_events (run, arrival) where run is not null;
