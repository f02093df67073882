-- abandon_bulk: mark an abandoned operation for removal. An owner that continues it gets an error.
UPDATE windlass.bulk SET action = 'drop' WHERE id = :bulk AND decided = :decided::boolean AND expires <= windlass.clock(:now) RETURNING id;
