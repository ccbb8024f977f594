-- What is asked beside a label: written down with its delivery, worked off by a hand of the worker.
create table asks (
    id text not null primary key,
    forge text not null,
    repo_id text not null,
    repo_path text not null,
    -- The issue or pull request; 0 for all issues of the repository.
    issue bigint not null,
    -- cancel, recheck, command, feedback or finish.
    verb text not null,
    -- What makes two deliveries one: the comment's or review's id; empty where only the newest word counts.
    act text not null,
    -- The event in the normal form, as JSON.
    event text not null,
    -- open or done.
    state text not null,
    asked_ms bigint not null,
    -- While a worker is at it, when another may take it up.
    not_before_ms bigint not null,
    owner text,
    tries bigint not null,
    -- Grows with each delivery that asks the same again; an answer to an older one does not end it.
    told bigint not null,
    -- What came of it, for the administrator.
    answer text
);

create unique index one_ask_an_act on asks (forge, repo_id, issue, verb, act);
create index ask_queue on asks (state, not_before_ms, asked_ms);

-- Where a job comes from when it is not a label: the act, and all that is known of it as JSON.
alter table jobs add column origin_key text;
alter table jobs add column origin text;
-- Why it is to be stopped, as JSON.
alter table jobs add column cancel_asked text;
-- The agent's steps so far.
alter table jobs add column steps bigint not null default 0;

create unique index one_job_an_origin on jobs (forge, repo_id, issue, origin_key) where origin_key is not null;

-- The repositories that were ever heard of.
create table repositories (
    forge text not null,
    repo_id text not null,
    path text not null,
    primary key (forge, repo_id)
);

insert into repositories (forge, repo_id, path) select forge, repo_id, max(repo_path) from jobs group by forge, repo_id;

-- The comments that were written within the last hour.
create table comments (
    forge text not null,
    repo_id text not null,
    issue bigint not null,
    written_ms bigint not null
);

create index comments_of_issue on comments (forge, repo_id, issue, written_ms);
