-- An admin may put a crawl under another plan, and that of its account binds it no more. Until now, this followed from the plans as they were.
ALTER TABLE crawl ADD COLUMN plan_by_admin INTEGER NOT NULL DEFAULT 0;
UPDATE crawl SET plan_by_admin = 1 WHERE plan <> (SELECT plan FROM account WHERE account.id = crawl.account)
	AND plan IN (SELECT name FROM plan WHERE NOT COALESCE(json_extract(terms_json, '$.safe'), 0));
