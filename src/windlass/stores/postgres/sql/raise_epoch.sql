-- raise_epoch: make every later fence greater than any handed out before a restore or failover.
UPDATE windlass.meta SET epoch = epoch + 1 RETURNING epoch;
