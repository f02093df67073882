-- raise_epoch: raise the epoch, so that all later fences are greater than all earlier ones.
UPDATE meta SET epoch = epoch + 1 RETURNING epoch;
