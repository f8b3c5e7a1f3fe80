-- Old answers, and those of a crawl from before answers were kept, are found without reading all of them.
CREATE INDEX idempotency_created ON idempotency (created_at);
CREATE INDEX idempotency_crawl ON idempotency (crawl) WHERE answer_json = '';
