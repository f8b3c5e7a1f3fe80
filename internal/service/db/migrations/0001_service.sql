-- Times are Unix milliseconds; 0 is none. Columns that end in _json hold JSON.
CREATE TABLE plan (
	name TEXT PRIMARY KEY,
	terms_json TEXT NOT NULL
);
CREATE TABLE account (
	id TEXT PRIMARY KEY,
	name TEXT NOT NULL UNIQUE,
	plan TEXT NOT NULL REFERENCES plan (name),
	own_hosts_json TEXT NOT NULL,
	disabled INTEGER NOT NULL,
	created_at BIGINT NOT NULL
);
CREATE TABLE api_key (
	id TEXT PRIMARY KEY,
	account TEXT NOT NULL REFERENCES account (id),
	name TEXT NOT NULL,
	hash TEXT NOT NULL,
	scopes_json TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	last_used_at BIGINT NOT NULL DEFAULT 0,
	expires_at BIGINT NOT NULL DEFAULT 0,
	revoked_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX api_key_account ON api_key (account);
CREATE TABLE crawl (
	id TEXT PRIMARY KEY,
	account TEXT NOT NULL REFERENCES account (id),
	state TEXT NOT NULL,
	desired TEXT NOT NULL,
	generation BIGINT NOT NULL DEFAULT 0,
	plan TEXT NOT NULL,
	priority INTEGER NOT NULL,
	profile TEXT NOT NULL,
	name TEXT NOT NULL,
	labels_json TEXT NOT NULL,
	schedule TEXT NOT NULL DEFAULT '',
	starts_json TEXT NOT NULL,            -- all start URLs as they were given
	start_count INTEGER NOT NULL,
	settings_json TEXT NOT NULL,          -- what the submission and edits set, by file key
	shown_json TEXT NOT NULL,             -- the same as users see it, without secrets
	stored_json TEXT NOT NULL,            -- the effective settings, for config.FromStored
	recrawl_json TEXT NOT NULL DEFAULT '', -- what the generation visits again; none for the first
	created_at BIGINT NOT NULL,
	queued_at BIGINT NOT NULL,            -- age in the queue; a pause keeps it
	started_at BIGINT NOT NULL DEFAULT 0,
	ended_at BIGINT NOT NULL DEFAULT 0,
	begun INTEGER NOT NULL DEFAULT 0,     -- 1 when it has a directory
	resume_first INTEGER NOT NULL DEFAULT 0, -- 1 when it ran when the process ended
	trial INTEGER NOT NULL DEFAULT 0,     -- see recover.go
	rescope INTEGER NOT NULL DEFAULT 0,   -- 1 when its scope was changed after the generation began
	wait_code TEXT NOT NULL DEFAULT '',   -- why it is paused
	wait_detail TEXT NOT NULL DEFAULT '',
	elapsed_ms BIGINT NOT NULL DEFAULT 0, -- of this generation
	counted BIGINT NOT NULL DEFAULT 0,    -- pages of this generation that are booked in page_usage
	granted BIGINT NOT NULL DEFAULT 0,    -- pages of the quota that are reserved for it and not booked
	grant_month TEXT NOT NULL DEFAULT '', -- UTC month of the reservation
	disk_bytes BIGINT NOT NULL DEFAULT 0,
	result_json TEXT NOT NULL DEFAULT '{}',
	progress_json TEXT NOT NULL DEFAULT '{}'
);
CREATE INDEX crawl_account ON crawl (account, created_at);
CREATE INDEX crawl_state ON crawl (state);
CREATE INDEX crawl_created ON crawl (created_at);
CREATE INDEX crawl_schedule ON crawl (schedule);
CREATE TABLE crawl_run (
	crawl TEXT NOT NULL,
	generation BIGINT NOT NULL,
	state TEXT NOT NULL,
	started_at BIGINT NOT NULL,
	ended_at BIGINT NOT NULL,
	result_json TEXT NOT NULL,
	progress_json TEXT NOT NULL,
	PRIMARY KEY (crawl, generation)
);
CREATE TABLE page_usage (
	account TEXT NOT NULL,
	month TEXT NOT NULL,                  -- UTC, such as 2026-11
	pages BIGINT NOT NULL,
	told INTEGER NOT NULL DEFAULT 0,      -- 1 when quota.reached was recorded
	PRIMARY KEY (account, month)
);
CREATE TABLE event (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	at BIGINT NOT NULL,
	type TEXT NOT NULL,
	account TEXT NOT NULL,
	crawl TEXT NOT NULL,
	generation BIGINT NOT NULL,
	actor_key TEXT NOT NULL,
	actor_system TEXT NOT NULL,
	data_json TEXT NOT NULL
);
CREATE INDEX event_crawl ON event (crawl, id);
CREATE INDEX event_account ON event (account, id);
CREATE TABLE audit (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	at BIGINT NOT NULL,
	account TEXT NOT NULL,
	actor_key TEXT NOT NULL,
	actor_system TEXT NOT NULL,
	remote TEXT NOT NULL,
	action TEXT NOT NULL,
	object TEXT NOT NULL,
	data_json TEXT NOT NULL
);
CREATE TABLE idempotency (
	account TEXT NOT NULL,
	key TEXT NOT NULL,
	request_hash TEXT NOT NULL,
	crawl TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (account, key)
);
CREATE TABLE process (                -- one row for each time that crawls were run
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	started_at BIGINT NOT NULL,
	ended_well INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE schedule (
	id TEXT PRIMARY KEY,
	account TEXT NOT NULL REFERENCES account (id),
	name TEXT NOT NULL,
	cron TEXT NOT NULL,
	every TEXT NOT NULL,
	zone TEXT NOT NULL,
	enabled INTEGER NOT NULL,
	submission_json TEXT NOT NULL,
	crawl TEXT NOT NULL,
	recrawl_json TEXT NOT NULL,
	created_by TEXT NOT NULL,             -- id of the key
	scopes_json TEXT NOT NULL,            -- what the maker might do
	firing_json TEXT NOT NULL DEFAULT '', -- a recrawl that is being started
	created_at BIGINT NOT NULL,
	next_at BIGINT NOT NULL DEFAULT 0,
	last_at BIGINT NOT NULL DEFAULT 0,
	last_crawl TEXT NOT NULL DEFAULT '',
	last_error TEXT NOT NULL DEFAULT ''
);
CREATE INDEX schedule_next ON schedule (enabled, next_at);
CREATE TABLE webhook (
	id TEXT PRIMARY KEY,
	account TEXT NOT NULL REFERENCES account (id),
	url TEXT NOT NULL,
	secret TEXT NOT NULL,
	events_json TEXT NOT NULL,
	enabled INTEGER NOT NULL,
	allow_private INTEGER NOT NULL DEFAULT 0,
	after_event BIGINT NOT NULL,          -- only later events are delivered
	created_at BIGINT NOT NULL
);
CREATE TABLE delivery (
	id TEXT PRIMARY KEY,
	webhook TEXT NOT NULL,
	event BIGINT NOT NULL,                -- 0 for a test
	type TEXT NOT NULL,
	crawl TEXT NOT NULL,
	body TEXT NOT NULL,
	state TEXT NOT NULL,
	attempts INTEGER NOT NULL DEFAULT 0,
	created_at BIGINT NOT NULL,
	next_at BIGINT NOT NULL,
	done_at BIGINT NOT NULL DEFAULT 0,
	last_status INTEGER NOT NULL DEFAULT 0,
	last_error TEXT NOT NULL DEFAULT ''
);
CREATE INDEX delivery_webhook ON delivery (webhook, id);
CREATE INDEX delivery_next ON delivery (state, webhook, next_at);
CREATE INDEX delivery_done ON delivery (done_at);
CREATE TABLE cursor (                 -- how far a reader of events is
	reader TEXT PRIMARY KEY,
	event BIGINT NOT NULL
);
CREATE TABLE host (
	name TEXT PRIMARY KEY,
	learned TEXT NOT NULL,                -- what was learned of its pace
	updated_at BIGINT NOT NULL,
	denied INTEGER NOT NULL DEFAULT 0,
	denied_reason TEXT NOT NULL DEFAULT '',
	denied_at BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE session (                -- of a browser
	hash TEXT PRIMARY KEY,                -- of its token
	api_key TEXT NOT NULL,
	csrf TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	expires_at BIGINT NOT NULL
);
CREATE TABLE login (                  -- one-time links
	hash TEXT PRIMARY KEY,
	account TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	expires_at BIGINT NOT NULL
);
