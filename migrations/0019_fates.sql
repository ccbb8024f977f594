-- What became of our pull requests, and what people said of their verdicts. Kept for good: success is told from it.
create table fates (
    forge text not null,
    repo_id text not null,
    repo_path text not null,
    issue bigint not null,
    -- The run that opened it.
    run text not null,
    number bigint,
    opened_ms bigint not null,
    -- open, merged or closed.
    became text not null,
    ended_ms bigint,
    -- The commit that the forge merged it as.
    merged_as text,
    -- Lines that people added and removed on top of our last commit before it ended; null when that is not known.
    lines_changed bigint,
    -- When it was seen that a later commit reverts it.
    reverted_ms bigint,
    -- The word of a person who found the verdict wrong, a false green; by the first who said so.
    wrong text,
    wrong_ms bigint,
    -- When the next look for a revert is due.
    due_ms bigint not null,
    primary key (forge, repo_id, run)
);

create index fates_due on fates (due_ms) where became = 'merged' and reverted_ms is null;
create index fates_by_pull_request on fates (forge, repo_id, number);

insert into fates (forge, repo_id, repo_path, issue, run, number, opened_ms, became, due_ms)
select r.forge, r.repo_id, r.repo_path, r.issue, r.run, r.number, coalesce(j.done_ms, 0), 'open', 0
from reviews r left join jobs j on j.run = r.run and j.forge = r.forge and j.repo_id = r.repo_id where r.state <> 'over';
