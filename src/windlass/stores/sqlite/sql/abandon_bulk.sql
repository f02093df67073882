-- abandon_bulk: mark an abandoned operation for removal. An owner that continues it gets an error.
UPDATE bulk SET action = 'drop' WHERE id = :bulk AND decided = :decided AND expires <= :now RETURNING id;
