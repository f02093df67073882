-- take_usage: remove and return the attempts of a fair queue that have ended.
DELETE FROM usage WHERE queue = :queue
RETURNING tenant, ran, charge, attempts, at;
