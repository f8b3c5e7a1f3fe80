-- An edit is judged before its transaction, which looks here whether another edit came first.
ALTER TABLE crawl ADD COLUMN edits BIGINT NOT NULL DEFAULT 0;
