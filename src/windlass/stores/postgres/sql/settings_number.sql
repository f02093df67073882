-- settings_number: return the number of the current limits and settings of tenants.
SELECT settings FROM windlass.meta WHERE one;
