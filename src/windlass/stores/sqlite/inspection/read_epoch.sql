-- read_epoch: return the store's epoch.
SELECT epoch FROM meta;
