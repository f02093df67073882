-- advance_bulk: bring the tasks of an operation from one stage to another, those up to an id.
UPDATE bulk_task SET stage = :stage WHERE bulk = :bulk AND stage = :old AND task <= :last;
