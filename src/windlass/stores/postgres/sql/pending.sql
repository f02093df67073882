-- pending: some ends whose dependents have not all been told.
SELECT parent FROM windlass.ended LIMIT :limit;
