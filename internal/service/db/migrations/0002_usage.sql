-- What the usage of an account is summed up from, without reading the crawls themselves.
CREATE INDEX crawl_usage ON crawl (account, grant_month, granted, disk_bytes, state);
