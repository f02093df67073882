-- take_ended: take charge of telling the dependents of this.
-- batch: parent blob
SELECT parent, how, after FROM ended WHERE parent = :parent;
