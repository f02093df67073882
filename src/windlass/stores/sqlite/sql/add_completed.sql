-- add_completed: write a completed attempt whose lease was removed, or a wait that is over.
-- moves: leased | scheduled -> completed
-- batch: id blob, fence integer, session blob, claimed integer, finished integer
INSERT INTO completed (id, fence, session, claimed, finished) VALUES (:id, :fence, :session, :claimed, :finished);
