-- handlers: every handler that was ever published.
SELECT name, is_async, queue, parameters, returns, doc, template, seen FROM handler ORDER BY name;
