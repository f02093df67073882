-- open_session: begin a node's session.
INSERT INTO session (id, node, ttl, renewed, boot)
VALUES (:session, :node, :ttl, :now, :boot);
