-- see_handlers: set when handlers were published last.
-- batch: name text
UPDATE windlass.handler SET seen = windlass.clock(:now) WHERE name = ANY (:name::text[]);
