-- lock_claims: nothing to do, because there is one writer at a time.
SELECT count(*) FROM json_each(:names);
