/* One task, its leases and fences, and the sessions of the nodes that hold them: renewal, loss, drain, cancel, restore.
 *
 * Nodes claim, start and report one task. Time passes, a sweeper takes back what lost sessions hold, nodes drain or are
 * killed, an operator cancels, one report arrives again late, and the database is replaced once by an older copy of itself.
 * One `atomic` block is one committed statement or transaction; everything between two blocks can be interrupted, paused
 * or lost.
 *
 * Assertions state the promises (P2, P3, P4, P11, P17). A task that nobody can finish shows up as an invalid end state,
 * because nodes stop only when it has ended. Not here: a second restore of the same copy, which raises the epoch to a
 * number that the first one has used already. Each flag (`#ifdef`) plants one mistake, and Spin must find it.
 */

#define NODES 2
#define SESSIONS 6         /* One of each node, and one more for every session that may be lost. */
#define MAX_DISTURBANCES 2 /* Late renewals by living nodes, and the restore. A drain or kill and a late report come on top. */
#define MAX_ATTEMPTS 2
#define NONE SESSIONS

#define RUNNABLE 0
#define LEASED 1
#define COMPLETED 2
#define FAILED 3
#define CANCELLED 4

#define is_final (state >= COMPLETED)
#define bit(session) (1 << (session))
#define is_alive(session) ((alive & bit(session)) != 0)
#define is_overdue(session) ((overdue & bit(session)) != 0)
#define unowned (alive & ~(bit(session_of[0]) | bit(session_of[1])))

/* What the store remembers of the task, and of all sessions (a bit for each). */
byte state = RUNNABLE;
byte fence;
byte holder = NONE;        /* The session that holds the lease. */
byte attempts;
bool cancel_requested;
byte epoch;
byte alive = bit(0) | bit(1);
byte overdue;              /* Not renewed for longer than its TTL. */

/* What the nodes remember. */
byte session_of[NODES];
byte next_session = NODES;
byte live_nodes = NODES;
byte claims_under_way;
bool late;                 /* A report whose answer was lost, and that arrives once more at any later time. */
byte late_session;
byte late_fence;
bool late_sent;

/* What nobody remembers: it is here for the assertions. */
byte greatest_fence;       /* Of all grants, also of those that a restore has undone. */
byte live_leases;
byte outcomes;
byte reports;              /* Accepted ones. */
bool may_start = true;     /* Set by the submit, and whenever an attempt ends without an outcome. */
bool returned;             /* The handler of the current lease has returned. */
byte disturbances;
bool restore_is_over;

inline finish(outcome) {
    state = outcome; holder = NONE; outcomes++;
    assert(outcomes <= 1)                        /* P4 */
}

inline requeue() {
    /* A lease ends without an outcome: the task runs again, unless somebody cancelled it meanwhile. */
    live_leases--;
    if
#ifndef REQUEUE_FORGETS_CANCEL
    :: cancel_requested -> finish(CANCELLED)
    :: else -> state = RUNNABLE; holder = NONE
#else
    :: true -> state = RUNNABLE; holder = NONE
#endif
    fi
}

inline report(session, my_fence) {
    /* An attempt that lost its lease must not end the task: then nothing changes. */
    if
#ifdef M1_REPORT_WITHOUT_FENCE
    :: state == LEASED && holder == session ->
#else
    :: state == LEASED && holder == session && fence == my_fence ->
#endif
        assert(my_fence == fence);               /* P3: an accepted report carries the latest fence. */
        live_leases--; attempts++; reports++;
        if
#ifndef REPORT_FORGETS_CANCEL
        :: cancel_requested -> finish(CANCELLED)
        :: !cancel_requested -> finish(COMPLETED)
#else
        :: true -> finish(COMPLETED)
#endif
        :: !cancel_requested && attempts < MAX_ATTEMPTS -> state = RUNNABLE; holder = NONE; may_start = true
        :: !cancel_requested && attempts >= MAX_ATTEMPTS -> finish(FAILED); assert(reports == MAX_ATTEMPTS)
        fi;
        assert(!(cancel_requested && state == COMPLETED))      /* P11 */
    :: else
    fi
}

proctype node(byte me) {
    byte my_fence;

claim:
    if
    :: atomic { is_final && restore_is_over -> session_of[me] = NONE } goto stop
    :: atomic {                                  /* The statement has looked at the session, and is on its way. */
            state == RUNNABLE && is_alive(session_of[me]) -> claims_under_way++
       }
       atomic {
            claims_under_way--;
            if
#ifndef CLAIM_TAKES_WHAT_IT_SAW
            :: state != RUNNABLE -> goto claim   /* Another claim was faster. */
            :: else ->
#else
            :: is_final -> goto claim
            :: else ->
#endif
                state = LEASED; holder = session_of[me];
#ifndef M2_FENCE_DOES_NOT_GROW
                if
                :: fence < epoch * 16 -> fence = epoch * 16 + 1
                :: else -> fence++
                fi;
#else
                if
                :: fence == 0 -> fence = 1
                :: else
                fi;
#endif
                live_leases++;
                assert(live_leases == 1);        /* P2 */
                assert(fence > greatest_fence);  /* P3 */
                assert(!cancel_requested);       /* P11 */
                greatest_fence = fence; returned = false; my_fence = fence
            fi
       }
    :: atomic { !is_alive(session_of[me]) && !(is_final && restore_is_over) ->       /* Lost: open another session. */
            assert(next_session < SESSIONS);
            session_of[me] = next_session; next_session++;
            alive = alive | bit(session_of[me]) }
       goto claim
    :: atomic { live_nodes > 1 -> live_nodes-- } goto drain
    fi;

prefetched:
    if
    :: atomic {                                  /* A paused node may start what it no longer holds: that is not counted. */
            if
            :: state == LEASED && holder == session_of[me] && fence == my_fence ->
                assert(may_start);               /* P17: nothing is repeated without a reason. */
                may_start = false
            :: else
            fi
       }
    :: atomic { live_nodes > 1 -> live_nodes-- } goto drain
    :: atomic { live_nodes > 1 -> live_nodes--; session_of[me] = NONE } goto stop    /* kill -9 */
    fi;

    if                                           /* The handler runs. It may act after its lease is gone. */
    :: atomic {
            if
            :: state == LEASED && holder == session_of[me] && fence == my_fence -> returned = true
            :: else
            fi
       }
    :: atomic { live_nodes > 1 -> live_nodes-- } goto drain              /* It was stopped at the end of the grace period. */
    :: atomic { live_nodes > 1 -> live_nodes--; session_of[me] = NONE } goto stop
    fi;

    if
    :: atomic { report(session_of[me], my_fence) }
    :: atomic {
            !late_sent -> late_sent = true; late = true;
            late_session = session_of[me]; late_fence = my_fence; 
            report(session_of[me], my_fence)
       }
    :: atomic { live_nodes > 1 -> live_nodes--; session_of[me] = NONE } goto stop
#ifdef DRAIN_DROPS_RESULTS
    :: atomic { live_nodes > 1 -> live_nodes-- } goto drain
#endif
    fi;
    my_fence = 0;
    goto claim;

drain:                                           /* Close the session, then give back what it still holds. */
    alive = alive & ~bit(session_of[me]);
    atomic {
#ifndef M11_CLOSE_KEEPS_LEASES
        if
        :: state == LEASED && holder == session_of[me] ->
            may_start = may_start || !returned;
#ifdef RELEASE_COUNTS_AS_ATTEMPT
            attempts++;
#endif
            requeue()
        :: else
        fi;
#endif
        assert(!(state == LEASED && holder == session_of[me]));
        assert(attempts == reports);             /* P17: a release costs no attempt. */
        session_of[me] = NONE
    }
stop:
    skip
}

proctype sweeper() {
    byte seen;

end:
    do
    :: atomic { (unowned & ~overdue) != 0 -> overdue = overdue | unowned }       /* Nobody renews them. */
#ifndef M10_SWEEP_IGNORES_RENEWALS
    :: atomic { (alive & overdue) != 0 -> seen = alive & overdue;
#else
    :: atomic { (alive & overdue) != 0 -> seen = alive & overdue }
       atomic {
#endif
            assert((alive & seen & ~overdue) == 0);      /* A session that is renewed in time is not lost. */
            alive = alive & ~seen; seen = 0;             /* From now on it can claim nothing. */
#ifdef M10_LEASES_TAKEN_ONCE
            if
            :: state == LEASED && !is_alive(holder) -> may_start = true; requeue()
            :: else
            fi
#endif
       }
#ifndef M10_LEASES_TAKEN_ONCE
    :: atomic {                                  /* Every sweep looks: a claim may have been under way. */
            state == LEASED && !is_alive(holder) -> may_start = true; requeue()
       }
#endif
    od
}

proctype keeper(byte me) {
    /* Renews the session of a node, sometimes too late. A lost one cannot be renewed. */
end:
    do
    :: atomic {
            is_alive(session_of[me]) && !is_overdue(session_of[me]) && disturbances < MAX_DISTURBANCES ->
            disturbances++; overdue = overdue | bit(session_of[me])
       }
    :: atomic {
            is_alive(session_of[me]) && is_overdue(session_of[me]) -> overdue = overdue & ~bit(session_of[me])
       }
    od
}

proctype network() {
end:
    atomic {
        late -> report(late_session, late_fence);
        late = false; late_session = 0; late_fence = 0
    }
}

proctype operator() {
end:
    atomic {
        if
        :: state == RUNNABLE -> finish(CANCELLED)
        :: state == LEASED -> cancel_requested = true
        :: else
        fi
    }
}

proctype restore() {
    /* An older copy takes the place of the database: a backup, or a standby that lagged. Before a node can claim again,
     * the operator raises the epoch and closes the sessions that the copy remembers (`windlass db raise-epoch`).
     */
    byte old_state, old_fence, old_holder, old_attempts, old_alive;
    bool old_cancel_requested;

    if
    :: restore_is_over = true; goto stop         /* Nothing is restored. */
    :: atomic {
            disturbances < MAX_DISTURBANCES -> disturbances++;
            old_state = state; old_fence = fence; old_holder = holder; old_attempts = attempts; old_alive = alive;
            old_cancel_requested = cancel_requested
       }
    fi;
    atomic {
        claims_under_way == 0 ->
        state = old_state; fence = old_fence; holder = old_holder; attempts = old_attempts; alive = old_alive;
        cancel_requested = old_cancel_requested;
        live_leases = (state == LEASED -> 1 : 0); outcomes = (is_final -> 1 : 0); reports = attempts;
        overdue = 0; may_start = true; returned = false;
#ifndef M2_EPOCH_NOT_RAISED
        epoch++;
#endif
#ifndef RESTORE_KEEPS_SESSIONS
        alive = 0;
        if
        :: state == LEASED -> requeue()
        :: else
        fi
#endif
        restore_is_over = true;
        old_state = 0; old_fence = 0; old_holder = 0; old_attempts = 0; old_alive = 0; old_cancel_requested = false
    }
stop:
    skip
}

init {
    atomic {
        session_of[0] = 0;
        session_of[1] = 1;
        run node(0);
        run node(1);
        run sweeper();
        run keeper(0);
        run keeper(1);
        run network();
        run operator();
        run restore()
    }
}
