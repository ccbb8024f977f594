-- What the tests said at base, so that an unchanged base is not measured again.
create table baselines (
    -- The name of the repository's mirror: the forge and its own id of the repository.
    repository text not null,
    base text not null,
    -- What the sandbox is made of.
    image text not null,
    command text not null,
    -- Every run, as JSON.
    runs text not null,
    measured_ms bigint not null,
    primary key (repository, base, image, command)
);

create index baselines_by_age on baselines (repository, measured_ms);
