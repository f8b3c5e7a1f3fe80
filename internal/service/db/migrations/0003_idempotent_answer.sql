-- A repeated request gets the answer of the first, whatever became of the crawl since.
ALTER TABLE idempotency ADD COLUMN answer_json TEXT NOT NULL DEFAULT '';
