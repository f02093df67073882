-- lease: write a lease of a claim.
-- moves: runnable -> leased
-- batch: id blob, fence integer
UPDATE task SET state = 'leased', fence = :fence, session = :session, claimed = :now
 WHERE id = :id AND state = 'runnable';
