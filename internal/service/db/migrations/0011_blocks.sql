-- How many blocked hosts of a crawl have an event is counted whenever another one is blocked.
CREATE INDEX event_blocked ON event (crawl) WHERE type = 'host.blocked';
