-- rebase_accounts: subtract the same from all charges of a fair queue.
UPDATE account SET charged = charged - :floor, highest = highest - :floor WHERE queue = :queue;
