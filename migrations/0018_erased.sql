-- When the texts of a job were erased; the columns that held them are empty since.
alter table jobs add column erased_ms bigint;

create index jobs_to_erase on jobs (done_ms, id) where state = 'done' and erased_ms is null;
