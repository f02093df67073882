-- some_old_unique: return a row if some lock of unique tasks may be free.
SELECT 1 FROM unique_lock WHERE look <= :now LIMIT 1;
