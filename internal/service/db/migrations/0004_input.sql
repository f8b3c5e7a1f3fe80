-- What a crawl was submitted with is apart from its state, so that lists of crawls do not read it. Its bytes count towards the account's disk.
CREATE TABLE crawl_input (
	crawl TEXT PRIMARY KEY,
	starts_json TEXT NOT NULL,            -- all start URLs as they were given
	settings_json TEXT NOT NULL,          -- what the submission and edits set, by file key
	shown_json TEXT NOT NULL,             -- the same as users see it, without secrets
	stored_json TEXT NOT NULL             -- the effective settings, for config.FromStored
);
INSERT INTO crawl_input SELECT id, starts_json, settings_json, shown_json, stored_json FROM crawl;
ALTER TABLE crawl RENAME COLUMN starts_json TO first_starts_json;
UPDATE crawl SET first_starts_json = (SELECT json_group_array(value) FROM (SELECT value FROM json_each(crawl.first_starts_json) LIMIT 10)) WHERE start_count > 10;
ALTER TABLE crawl DROP COLUMN settings_json;
ALTER TABLE crawl DROP COLUMN shown_json;
ALTER TABLE crawl DROP COLUMN stored_json;
ALTER TABLE crawl ADD COLUMN input_bytes BIGINT NOT NULL DEFAULT 0;
UPDATE crawl SET input_bytes = (SELECT LENGTH(starts_json) + LENGTH(settings_json) + LENGTH(shown_json) + LENGTH(stored_json) FROM crawl_input WHERE crawl_input.crawl = crawl.id);
ALTER TABLE schedule ADD COLUMN input_bytes BIGINT NOT NULL DEFAULT 0;
UPDATE schedule SET input_bytes = LENGTH(submission_json) + LENGTH(recrawl_json);
CREATE INDEX schedule_account ON schedule (account, input_bytes);
DROP INDEX crawl_usage;
CREATE INDEX crawl_usage ON crawl (account, grant_month, granted, disk_bytes, input_bytes, state);
