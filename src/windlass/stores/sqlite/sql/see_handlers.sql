-- see_handlers: set when a handler was published last.
-- batch: name text
UPDATE handler SET seen = :now WHERE name = :name;
