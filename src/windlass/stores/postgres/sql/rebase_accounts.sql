-- rebase_accounts: subtract the same from all charges of a fair queue.
UPDATE windlass.account SET charged = charged - :floor::bigint, highest = highest - :floor::bigint WHERE queue = :queue;
