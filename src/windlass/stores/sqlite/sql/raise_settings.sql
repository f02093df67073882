-- raise_settings: make claims read the limits and the settings of tenants again.
UPDATE meta SET settings = settings + 1;
