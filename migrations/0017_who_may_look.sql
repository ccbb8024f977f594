-- Who is signed in to the pages.
create table sessions (
    -- The SHA-256 of what the browser holds.
    id text not null primary key,
    forge text not null,
    -- The forge's own id of the account, and its login.
    account text not null,
    login text not null,
    since_ms bigint not null,
    seen_ms bigint not null
);

create index sessions_by_seen on sessions (seen_ms);

-- Keys for programs.
create table api_tokens (
    id text not null primary key,
    name text not null,
    -- The SHA-256 of the key.
    hash text not null unique,
    -- read, operate or audit.
    scope text not null,
    -- The only repositories that it reaches, forge/id, as JSON; none: all.
    repositories text,
    made_ms bigint not null,
    ends_ms bigint,
    used_ms bigint
);

-- What our forms are known by, the same in all processes of the service.
create table web_secret (
    one bigint not null primary key check (one = 1),
    secret text not null
);
