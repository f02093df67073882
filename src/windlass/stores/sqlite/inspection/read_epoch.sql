-- read_epoch: the store's epoch.
SELECT epoch FROM meta;
