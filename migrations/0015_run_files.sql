-- What a run that goes on keeps after each step, for a worker on another machine that goes on with it; gone when the job has ended.
create table run_files (
    run text not null,
    -- The path in the run's folder.
    name text not null,
    -- From 0; all parts one behind the other are the file.
    part bigint not null,
    -- In base64.
    body text not null,
    primary key (run, name, part)
);
