-- check_later: leave the search for a cycle in this workflow to the sweep, or say that it was done.
-- batch: id blob, later integer
UPDATE workflow SET check_later = :later WHERE id = :id;
