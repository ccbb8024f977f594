-- What a run has cost so far: the tokens of all its requests and answers, as the model's server counted them.
alter table jobs add column tokens bigint not null default 0;
-- What the tests prove of the patch of a run that has ended.
alter table jobs add column proof text;

-- The list of runs, newest first: of all, of a repository, of a person, of an outcome; and a run by its name.
create index job_newest on jobs (queued_ms, id, forge, repo_id);
create index job_newest_of_repository on jobs (forge, repo_id, queued_ms, id);
create index job_newest_of_person on jobs (requested_by, queued_ms, id);
create index job_newest_of_outcome on jobs (outcome, queued_ms, id);
create index job_of_run on jobs (run) where run is not null;
create index job_ended on jobs (done_ms, id) where state = 'done';
