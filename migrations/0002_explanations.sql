-- With the verb, its reason and the issue: what an administrator is told about a delivery.

alter table deliveries add column repository text;
alter table deliveries add column actor text;
