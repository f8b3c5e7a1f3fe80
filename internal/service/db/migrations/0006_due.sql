-- What is due is found without reading the schedules themselves: their submissions may be large.
DROP INDEX schedule_next;
CREATE INDEX schedule_next ON schedule (enabled, next_at, created_at, last_at, id);
