-- A job's turn: each repository's jobs stand one behind the other, beside those of the others, so that a flood of one holds up nobody else.
alter table jobs add column turn bigint not null default 0;
-- Higher is earlier, whatever the turn.
alter table jobs add column priority bigint not null default 0;
-- When it was claimed first.
alter table jobs add column started_ms bigint;

drop index job_waiting;
create index job_waiting on jobs (priority desc, turn, queued_ms, id) where state = 'queued';
create index job_turns on jobs (forge, repo_id, priority, turn) where state = 'queued';
create index job_served on jobs (priority, turn) where state <> 'queued';
create index job_started on jobs (forge, repo_id, started_ms) where started_ms is not null;
create index job_started_by on jobs (forge, requested_by, started_ms) where started_ms is not null;

-- What an operator has switched on.
create table switches (
    name text not null primary key,
    by_whom text not null,
    why text not null,
    on_ms bigint not null
);
