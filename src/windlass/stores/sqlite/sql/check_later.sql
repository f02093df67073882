-- check_later: make the sweep search workflows for cycles, or record that it has.
-- batch: id blob, later integer
UPDATE workflow SET check_later = :later WHERE id = :id;
