-- What an account has of the disk, and how many of its crawls wait, is kept with every change of a crawl or a schedule: to sum it up takes long if there are many crawls, and all who write would wait.
ALTER TABLE account ADD COLUMN disk_bytes BIGINT NOT NULL DEFAULT 0; -- of its crawls
ALTER TABLE account ADD COLUMN input_bytes BIGINT NOT NULL DEFAULT 0; -- of its crawls and schedules
ALTER TABLE account ADD COLUMN queued BIGINT NOT NULL DEFAULT 0; -- crawls
UPDATE account SET disk_bytes = (SELECT COALESCE(SUM(disk_bytes), 0) FROM crawl WHERE crawl.account = account.id), input_bytes = (SELECT COALESCE(SUM(input_bytes), 0) FROM crawl WHERE crawl.account = account.id) + (SELECT COALESCE(SUM(input_bytes), 0) FROM schedule WHERE schedule.account = account.id), queued = (SELECT COUNT(*) FROM crawl WHERE crawl.account = account.id AND state = 'queued');
CREATE TRIGGER crawl_insert AFTER INSERT ON crawl BEGIN UPDATE account SET disk_bytes = disk_bytes + new.disk_bytes, input_bytes = input_bytes + new.input_bytes, queued = queued + (new.state = 'queued') WHERE id = new.account; END;
CREATE TRIGGER crawl_update AFTER UPDATE OF state, disk_bytes, input_bytes ON crawl BEGIN UPDATE account SET disk_bytes = disk_bytes + new.disk_bytes - old.disk_bytes, input_bytes = input_bytes + new.input_bytes - old.input_bytes, queued = queued + (new.state = 'queued') - (old.state = 'queued') WHERE id = new.account; END;
CREATE TRIGGER crawl_delete AFTER DELETE ON crawl BEGIN UPDATE account SET disk_bytes = disk_bytes - old.disk_bytes, input_bytes = input_bytes - old.input_bytes, queued = queued - (old.state = 'queued') WHERE id = old.account; END;
CREATE TRIGGER schedule_insert AFTER INSERT ON schedule BEGIN UPDATE account SET input_bytes = input_bytes + new.input_bytes WHERE id = new.account; END;
CREATE TRIGGER schedule_update AFTER UPDATE OF input_bytes ON schedule BEGIN UPDATE account SET input_bytes = input_bytes + new.input_bytes - old.input_bytes WHERE id = new.account; END;
CREATE TRIGGER schedule_delete AFTER DELETE ON schedule BEGIN UPDATE account SET input_bytes = input_bytes - old.input_bytes WHERE id = old.account; END;
DROP INDEX crawl_usage;
CREATE INDEX crawl_granted ON crawl (account, grant_month, granted) WHERE granted > 0;
CREATE INDEX crawl_deleting ON crawl (account, queued_at, id) WHERE state = 'deleting';
CREATE INDEX crawl_ended ON crawl (ended_at) WHERE state IN ('complete', 'partial', 'failed', 'cancelled');
CREATE INDEX crawl_due ON crawl (queued_at, id) WHERE state IN ('queued', 'running', 'pausing', 'finishing') OR state = 'paused' AND (desired = 'cancel' OR wait_code IN ('account', 'disk', 'plan', 'quota', 'recovery'));
