/* Lease, fence, session, fan-in, cancel and drain, as the stores implement them.
 *
 * Two nodes run three tasks: two prerequisites, and a dependent that a submitter adds while they may be finishing. A
 * sweeper may take a session at any time, an operator may cancel a prerequisite, and a node may drain. One `atomic`
 * block is one committed statement or transaction; everything between two blocks can be interrupted, paused or lost.
 *
 * Assertions state the promises. A task that nobody can finish shows up as an invalid end state, because nodes stop
 * only when every task is terminal. Each flag that `python -m tests.formal` defines plants one mistake, and Spin must find it.
 */

#define NODES 2
#define TASKS 3
#define CHILD 2            /* The dependent; 0 and 1 are its prerequisites. */
#define SESSIONS 4         /* One of each node, and one more for every session that may be taken. */
#define MAX_LOST 1         /* Sessions of living nodes that the sweeper takes: those nodes were paused or cut off. */

#define ABSENT 0
#define WAITING 1
#define RUNNABLE 2
#define LEASED 3
#define COMPLETED 4
#define CANCELLED 5

#define is_final(task) (state[task] == COMPLETED || state[task] == CANCELLED)
#define no_row_locks (share_locked[0] == 0 && share_locked[1] == 0)
#define all_final (is_final(0) && is_final(1) && is_final(CHILD))

byte state[TASKS];
byte fence[TASKS];
byte holder[TASKS];        /* The session that holds the lease. */
bool cancel_requested[TASKS];
bool cancel_acknowledged[TASKS];
byte outcomes[TASKS];
byte open_prerequisites;   /* Of the dependent. */
bool edge[2];              /* From prerequisite to dependent, in the store. */
bool resolved[2];
byte share_locked[2];      /* The submitter's lock on a prerequisite. */
bool alive[SESSIONS];      /* As the store sees it. */
byte claims_under_way[SESSIONS];
byte next_session = NODES;
byte lost;
byte live_nodes = NODES;
byte crashed = SESSIONS;   /* The session of the node that was killed, if one was. */

inline resolve_edge(parent) {
    /* In the transaction that ended the prerequisite, after its row was written: a second statement. */
    if
    :: edge[parent] && !resolved[parent] ->
        resolved[parent] = true;
        if
        :: state[parent] == CANCELLED && state[CHILD] == WAITING ->
            state[CHILD] = CANCELLED; outcomes[CHILD]++; assert(outcomes[CHILD] <= 1)
        :: state[parent] == COMPLETED && state[CHILD] == WAITING ->
            assert(open_prerequisites > 0);
            open_prerequisites--;
            if
            :: open_prerequisites == 0 -> state[CHILD] = RUNNABLE
            :: else
            fi
        :: else
        fi
    :: else
    fi
}

inline requeue(task) {
    /* A lease ends without an outcome: the task runs again, unless somebody cancelled it meanwhile. */
    if
#ifndef REQUEUE_FORGETS_CANCEL
    :: cancel_requested[task] ->
        state[task] = CANCELLED; outcomes[task]++; assert(outcomes[task] <= 1);
        if
        :: task != CHILD -> resolve_edge(task)
        :: else
        fi
    :: else -> state[task] = RUNNABLE
#else
    :: true -> state[task] = RUNNABLE
#endif
    fi
}

inline settle(task, session, my_fence) {
    /* Waits for the lock of a submitter that names this task, then writes the outcome and resolves the edge. */
#ifdef SNAPSHOT_BEFORE_LOCK
    bool seen_edge;
    atomic { seen_edge = (task != CHILD && edge[task % 2]) }
#endif
    atomic {
        (task == CHILD || share_locked[task % 2] == 0);
        if
#ifdef NO_FENCE
        :: state[task] == LEASED ->
#else
        :: state[task] == LEASED && holder[task] == session && fence[task] == my_fence ->
#endif
            if
#ifndef SETTLE_FORGETS_CANCEL
            :: cancel_requested[task] -> state[task] = CANCELLED
            :: else -> state[task] = COMPLETED
#else
            :: true -> state[task] = COMPLETED
#endif
            fi;
#ifdef NO_FENCE
            assert(fence[task] == my_fence);     /* An attempt that lost its lease must not end the task. */
#endif
            assert(!(cancel_acknowledged[task] && state[task] == COMPLETED));
            outcomes[task]++;
            assert(outcomes[task] <= 1);
            if
#ifdef SNAPSHOT_BEFORE_LOCK
            :: task != CHILD && seen_edge -> resolve_edge(task)
#else
            :: task != CHILD -> resolve_edge(task)
#endif
            :: else
            fi
        :: else                                  /* Stale: nothing changes. */
        fi
    }
}

proctype node(byte first_session) {
    byte session = first_session;
    byte task, my_fence;
    bool got;

claim:
    if
    :: all_final -> goto stop
    :: atomic {
            !all_final && alive[session] &&
            (state[0] == RUNNABLE || state[1] == RUNNABLE || state[CHILD] == RUNNABLE) ->
            claims_under_way[session]++          /* The statement has looked at the session, and is on its way. */
       }
       atomic {
            got = false;
            if
            :: state[0] == RUNNABLE -> task = 0; got = true
            :: state[1] == RUNNABLE -> task = 1; got = true
            :: state[CHILD] == RUNNABLE -> task = CHILD; got = true
            :: else
            fi;
            if
            :: got ->
                assert(!cancel_acknowledged[task]);
                assert(task != CHILD || (state[0] == COMPLETED && state[1] == COMPLETED));
                state[task] = LEASED; fence[task]++; holder[task] = session; my_fence = fence[task]
            :: else
            fi;
            claims_under_way[session]--
       }
       if
       :: got -> goto work
       :: else -> goto claim
       fi
    :: !alive[session] && !all_final -> goto reopen
    :: atomic { live_nodes > 1 && !all_final -> live_nodes-- } goto drain
    fi;

work:                                            /* The handler: it may take forever, or act after its lease is gone. */
    if
    :: settle(task, session, my_fence)
    :: atomic { live_nodes > 1 -> live_nodes-- } goto drain
    :: atomic { live_nodes > 1 -> live_nodes--; crashed = session } goto stop     /* kill -9 */
    fi;
    goto claim;

reopen:                                          /* The node noticed that its session is gone. */
    atomic {
        assert(next_session < SESSIONS);
        session = next_session; next_session++; alive[session] = true
    }
    goto claim;

drain:                                           /* Closing a session gives back what it still holds. */
    atomic {
        no_row_locks -> alive[session] = false;
#ifndef CLOSE_KEEPS_LEASES
        task = 0;
        do
        :: task < TASKS ->
            if
            :: state[task] == LEASED && holder[task] == session -> requeue(task)
            :: else
            fi;
            task++
        :: else -> break
        od
#endif
    }
stop:
    skip
}

proctype sweeper() {
    byte session, task;

again:                                           /* Take a session: from now on it can claim nothing. */
    if
    :: all_final -> goto stop
    :: atomic { !all_final && crashed < SESSIONS && alive[crashed] -> session = crashed }
    :: atomic { !all_final && lost < MAX_LOST && alive[0] -> lost++; session = 0 }
    :: atomic { !all_final && lost < MAX_LOST && alive[1] -> lost++; session = 1 }
    fi;
    alive[session] = false;
    atomic {                                     /* Requeue what it holds; rows that a submit has locked are waited for. */
        no_row_locks -> task = 0;
        do
        :: task < TASKS ->
            if
            :: state[task] == LEASED && holder[task] == session -> requeue(task)
            :: else
            fi;
            task++
        :: else -> break
        od
    };
#ifndef ONE_SWEEP
    atomic {                                     /* Again, once no statement of that time can be under way. */
        claims_under_way[session] == 0 && no_row_locks ->
        task = 0;
        do
        :: task < TASKS ->
            if
            :: state[task] == LEASED && holder[task] == session -> requeue(task)
            :: else
            fi;
            task++
        :: else -> break
        od
    };
#endif
    goto again;
stop:
    skip
}

proctype submitter() {
    byte parent = 0;
    byte seen[2];

    do
    :: parent < 2 ->
        atomic {                                 /* SELECT … FOR SHARE */
#ifndef NO_PARENT_LOCK
            share_locked[parent]++;
#endif
            seen[parent] = state[parent]
        }
        parent++
    :: else -> break
    od;
    atomic {                                     /* Insert the task and its edges, and commit. */
        parent = 0;
        do
        :: parent < 2 ->
            edge[parent] = true;
            if
            :: seen[parent] == COMPLETED || seen[parent] == CANCELLED -> resolved[parent] = true
            :: else -> open_prerequisites++
            fi;
            parent++
        :: else -> break
        od;
        if
        :: seen[0] == CANCELLED || seen[1] == CANCELLED -> state[CHILD] = CANCELLED; outcomes[CHILD]++
        :: else ->
            if
            :: open_prerequisites == 0 -> state[CHILD] = RUNNABLE
            :: else -> state[CHILD] = WAITING
            fi
        fi;
#ifndef NO_PARENT_LOCK
        share_locked[0]--;
        share_locked[1]--
#endif
    }
}

proctype operator() {
    if
    :: atomic {                                  /* Cancel prerequisite 1, under its row's lock. */
            share_locked[1] == 0 ->
            if
            :: state[1] == RUNNABLE ->
                state[1] = CANCELLED; outcomes[1]++; cancel_acknowledged[1] = true; resolve_edge(1)
            :: state[1] == LEASED -> cancel_requested[1] = true; cancel_acknowledged[1] = true
            :: else
            fi
       }
    :: true                                      /* Or do nothing. */
    fi
}

init {
    atomic {
        state[0] = RUNNABLE;
        state[1] = RUNNABLE;
        state[CHILD] = ABSENT;
        alive[0] = true;
        alive[1] = true;
        run node(0);
        run node(1);
        run sweeper();
        run submitter();
        run operator()
    }
}
