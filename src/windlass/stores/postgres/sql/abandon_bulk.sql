-- abandon_bulk: an operation that its owner has left will be forgotten; whoever comes back to it is told.
UPDATE windlass.bulk SET action = 'drop' WHERE id = :bulk AND decided = :decided::boolean AND expires <= windlass.clock(:now) RETURNING id;
