-- pending: some ends whose dependents have not all been told.
SELECT parent FROM ended LIMIT :limit;
