-- handlers: every handler that was ever published.
SELECT name, is_async, queue, parameters, returns, doc, template, seen FROM windlass.handler ORDER BY name;
