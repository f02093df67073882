-- ready_names: let claims look again at what a limit held back.
-- batch: name text
UPDATE parked SET ready = 0 WHERE name = :name AND ready IS NOT 0;
