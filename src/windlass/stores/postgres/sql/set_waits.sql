-- set_waits: record what new or locked tasks wait for instead of running a handler.
-- batch: id uuid, wait text
UPDATE windlass.task AS t SET wait = i.wait FROM unnest(:id::uuid[], :wait::text[]) AS i (id, wait) WHERE t.id = i.id;
