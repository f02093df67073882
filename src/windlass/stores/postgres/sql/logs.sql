-- logs: what each ended attempt of a task printed.
SELECT fence, text FROM windlass.log WHERE task = :task ORDER BY fence;
