-- What a host has taught holds for the account whose crawls asked it. What was learned for all accounts is forgotten. A row of host is a denial.
DELETE FROM host WHERE denied = 0;
ALTER TABLE host DROP COLUMN learned;
ALTER TABLE host DROP COLUMN updated_at;
ALTER TABLE host DROP COLUMN denied;
CREATE TABLE learned (
	host TEXT NOT NULL,
	account TEXT NOT NULL,
	pace TEXT NOT NULL,                   -- as JSON
	updated_at BIGINT NOT NULL,
	PRIMARY KEY (host, account)
);
CREATE INDEX learned_updated ON learned (updated_at);
