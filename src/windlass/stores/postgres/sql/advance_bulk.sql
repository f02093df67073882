-- advance_bulk: move the tasks of an operation up to an id from one stage to another.
UPDATE windlass.bulk_task SET stage = :stage WHERE bulk = :bulk AND stage = :old AND task <= :last;
