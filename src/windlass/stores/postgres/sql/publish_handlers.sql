-- publish_handlers: insert handlers, and update those that differ. Returns the names of both.
-- batch: name text, is_async boolean, queue text, parameters text, returns text, doc text,
--   template text
INSERT INTO windlass.handler (name, is_async, queue, parameters, returns, doc, template, seen)
SELECT i.*, (SELECT windlass.clock(:now))
  FROM unnest(:name::text[], :is_async::boolean[], :queue::text[], :parameters::text[], :returns::text[], :doc::text[],
              :template::text[])
       AS i (name, is_async, queue, parameters, returns, doc, template)
    ON CONFLICT (name) DO UPDATE
   SET is_async = excluded.is_async, queue = excluded.queue, parameters = excluded.parameters,
       returns = excluded.returns, doc = excluded.doc, template = excluded.template, seen = excluded.seen
 WHERE (handler.is_async, handler.queue, handler.parameters, handler.returns, handler.doc, handler.template)
       IS DISTINCT FROM
       (excluded.is_async, excluded.queue, excluded.parameters, excluded.returns, excluded.doc, excluded.template)
RETURNING name;
