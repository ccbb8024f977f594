-- One set of SQL for SQLite and PostgreSQL: TEXT and BIGINT columns, times in milliseconds since the Unix epoch.

-- Every verified delivery, written before it is answered.
create table deliveries (
    id text not null primary key,
    forge text not null,
    delivery text not null,
    event text not null,
    received_ms bigint not null,
    body text not null,
    -- The verb of the normal form, or `unreadable`.
    verb text not null,
    why text not null,
    repo_id text,
    issue bigint,
    -- What is asked, as JSON, where the delivery may ask for work.
    asked text,
    -- The job that answers for it; a start without one waits for the active job of its issue to end.
    job text
);

create unique index delivery_once on deliveries (forge, delivery);
create index delivery_waiting on deliveries (forge, repo_id, issue, job);

create table jobs (
    id text not null primary key,
    forge text not null,
    repo_id text not null,
    repo_path text not null,
    issue bigint not null,
    issue_url text not null,
    -- The issue's words when the label was set: later edits do not reach the model.
    title text not null,
    body text not null,
    -- queued, running, done.
    state text not null,
    stage text not null,
    queued_ms bigint not null,
    not_before_ms bigint not null,
    -- The forge's id of the act of setting the label; one act, at most one job.
    episode text,
    requested_by text,
    -- Part of the branch's name, so fixed at the first claim and kept through every resumption.
    run text,
    lease_owner text,
    lease_until_ms bigint not null,
    -- Grows with each claim; a write with an older value is refused.
    fence bigint not null,
    leases bigint not null,
    -- What is finished, as JSON; a resumed run starts behind it.
    checkpoint text not null,
    outcome text,
    reason text,
    detail text,
    report text,
    done_ms bigint
);

create unique index one_active_job_an_issue on jobs (forge, repo_id, issue) where state <> 'done';
create unique index one_job_an_episode on jobs (forge, repo_id, issue, episode) where episode is not null;
create index job_queue on jobs (state, not_before_ms, queued_ms);
