-- Lists are in the order of their index, which has the state, so that crawls in other states are not read. Usage is summed up without reading the crawls themselves.
DROP INDEX crawl_account;
DROP INDEX crawl_state;
DROP INDEX crawl_created;
CREATE INDEX crawl_created ON crawl (created_at, id, state);
CREATE INDEX crawl_account ON crawl (account, created_at, id, state);
CREATE INDEX crawl_state ON crawl (state, created_at, id, account);
CREATE INDEX crawl_usage ON crawl (account, grant_month, granted, disk_bytes, state);
