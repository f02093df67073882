-- some_old_unique: return a row if some lock of unique tasks may be free.
SELECT 1 FROM windlass.unique_lock WHERE look <= windlass.clock(:now) LIMIT 1;
