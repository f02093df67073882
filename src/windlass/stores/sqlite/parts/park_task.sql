-- park_task: write down in which lane a runnable task is.
-- batch: id blob, target integer
UPDATE task SET lot = :target WHERE id = :id;
