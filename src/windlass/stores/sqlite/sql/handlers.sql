-- handlers: return all published handlers.
SELECT name, is_async, queue, parameters, returns, doc, template, seen FROM handler ORDER BY name;
