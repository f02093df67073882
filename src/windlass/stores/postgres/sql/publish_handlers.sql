-- publish_handlers: make handlers known, or known anew.
-- batch: name text, is_async boolean, queue text, parameters text, returns text, doc text,
--   template text
INSERT INTO windlass.handler (name, is_async, queue, parameters, returns, doc, template, seen)
SELECT i.*, (SELECT windlass.clock(:now))
  FROM unnest(:name::text[], :is_async::boolean[], :queue::text[], :parameters::text[], :returns::text[], :doc::text[],
              :template::text[])
       AS i (name, is_async, queue, parameters, returns, doc, template)
    ON CONFLICT (name) DO UPDATE
   SET is_async = excluded.is_async, queue = excluded.queue, parameters = excluded.parameters,
       returns = excluded.returns, doc = excluded.doc, template = excluded.template, seen = excluded.seen;
