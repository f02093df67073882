-- raise_settings: make claims read the limits and the settings of tenants again.
UPDATE windlass.meta SET settings = settings + 1 WHERE one;
