-- set_waits: record what a new or locked task waits for instead of running a handler.
-- batch: id blob, wait text
UPDATE task SET wait = :wait WHERE id = :id;
