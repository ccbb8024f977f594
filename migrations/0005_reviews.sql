-- Our pull requests whose human review is watched: one row for each run that opened one.
create table reviews (
    forge text not null,
    repo_id text not null,
    repo_path text not null,
    issue bigint not null,
    run text not null,
    -- Known from the first look on.
    number bigint,
    -- The commit at the head when it was last looked at.
    head text,
    -- waiting, approved, or over: closed, merged, gone.
    state text not null,
    -- The login of who approved the head, and since when that is known.
    approved_by text,
    approved_ms bigint,
    -- What the status says, for people.
    said text,
    looked_ms bigint,
    due_ms bigint not null,
    -- Grows with each word that there may be something new; a look that began before does not put the next one off.
    told bigint not null,
    primary key (forge, repo_id, run)
);

create index reviews_due on reviews (state, due_ms);

insert into reviews (forge, repo_id, repo_path, issue, run, state, due_ms, told)
select forge, repo_id, repo_path, issue, run, 'waiting', 0, 0 from jobs
where outcome = 'proposed' and run is not null and (origin is null or origin like '%"round":null%');
