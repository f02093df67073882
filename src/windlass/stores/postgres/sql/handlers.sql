-- handlers: return all published handlers.
SELECT name, is_async, queue, parameters, returns, doc, template, seen FROM windlass.handler ORDER BY name;
