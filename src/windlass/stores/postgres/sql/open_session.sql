-- open_session: begin a node's session.
INSERT INTO windlass.session (id, node, ttl, renewed, boot)
VALUES (:session, :node, :ttl, (SELECT windlass.clock(:now)), :boot);
