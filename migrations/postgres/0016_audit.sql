-- The audit chain. What differs between SQLite and PostgreSQL stands in a folder of its own.

-- Every event, in the order of arrival, written in the transaction that it tells about.
create table audit_events (
    arrival bigint generated always as identity primary key,
    -- A second event of this name is the same one told again.
    once text unique,
    run text,
    -- RFC 8785.
    event text not null
);

-- Those that are in no row of the chain yet.
create table audit_unsealed (
    arrival bigint not null primary key
);

-- The chain: each row holds the hash of the one before.
create table audit_chain (
    number bigint not null primary key,
    arrival bigint not null unique,
    run text,
    nth bigint,
    event text not null,
    previous text not null,
    hash text not null
);
create unique index audit_of_run on audit_chain (run, nth) where run is not null;

-- Signed ends of the chain.
create table audit_checkpoints (
    number bigint not null,
    at_ms bigint not null,
    keyid text not null,
    envelope text not null,
    primary key (number, keyid)
);

-- The texts and bytes that events name by their SHA-256; these may be erased.
create table audit_records (
    run text not null,
    digest text not null,
    kind text not null,
    -- In base64.
    body text not null,
    kept_ms bigint not null,
    primary key (run, digest)
);
create index audit_records_by_age on audit_records (kept_ms);

-- Who stands behind a pseudonym; a person who is forgotten has no row any more.
create table people (
    pseudonym text not null primary key,
    forge text not null,
    login text not null,
    salt text not null,
    unique (forge, login)
);

-- What was last written down of things that change seldom.
create table audit_values (
    name text not null primary key,
    value text not null
);

-- The name of this chain, and the lock of who seals.
create table audit_log (
    one bigint not null primary key check (one = 1),
    name text not null,
    seals bigint not null
);

create function audit_waits() returns trigger language plpgsql as $$
begin
    insert into audit_unsealed (arrival) values (new.arrival);
    return null;
end
$$;
create trigger audit_events_wait after insert on audit_events for each row execute procedure audit_waits();
create function audit_stays() returns trigger language plpgsql as $$
begin
    raise exception '% is only added to: its rows are never changed or deleted', tg_table_name;
end
$$;
create trigger audit_events_stay before update or delete on audit_events for each row execute procedure audit_stays();
create trigger audit_chain_stay before update or delete on audit_chain for each row execute procedure audit_stays();
create trigger audit_checkpoints_stay before update or delete on audit_checkpoints for each row execute procedure audit_stays();
create trigger audit_events_keep before truncate on audit_events for each statement execute procedure audit_stays();
create trigger audit_chain_keep before truncate on audit_chain for each statement execute procedure audit_stays();
create trigger audit_checkpoints_keep before truncate on audit_checkpoints for each statement execute procedure audit_stays();
