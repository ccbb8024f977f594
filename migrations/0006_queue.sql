-- The head of the queue, and the leases that run out, are found without reading the rest.
create index job_waiting on jobs (queued_ms, id) where state = 'queued';
create index job_leased on jobs (lease_until_ms) where state = 'running';
drop index job_queue;
