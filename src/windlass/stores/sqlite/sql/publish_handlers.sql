-- publish_handlers: insert handlers, and update those that differ. Returns the names of both.
-- batch: name text, is_async integer, queue text, parameters text, returns text, doc text,
--   template text
INSERT INTO handler (name, is_async, queue, parameters, returns, doc, template, seen)
VALUES (:name, :is_async, :queue, :parameters, :returns, :doc, :template, :now)
    ON CONFLICT (name) DO UPDATE
   SET is_async = excluded.is_async, queue = excluded.queue, parameters = excluded.parameters,
       returns = excluded.returns, doc = excluded.doc, template = excluded.template, seen = excluded.seen
 WHERE (handler.is_async, handler.queue, handler.parameters, handler.returns, handler.doc, handler.template)
       IS NOT
       (excluded.is_async, excluded.queue, excluded.parameters, excluded.returns, excluded.doc, excluded.template)
RETURNING name;
