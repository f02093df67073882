-- open_session: insert a session. A second try after a lost answer finds its own row.
INSERT INTO session (id, node, ttl, renewed, boot, about)
VALUES (:session, :node, :ttl, :now, :boot, :about)
    ON CONFLICT (id) DO NOTHING;
