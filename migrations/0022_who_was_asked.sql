-- Who was asked to review a pull request of ours, as a list in JSON.
alter table reviews add column asked text not null default '[]';
