/* Fan-in and cancel: two prerequisites, a dependent that is submitted while they may be finishing, and a task after it.
 *
 * Two workers claim and settle, also both prerequisites in one batch; three operators each cancel any task; a sweep
 * resolves edges whose dependents were locked. One `atomic` block is one statement. A transaction is several of them: what
 * it locks is locked until its last one, its commit, in which its writes become visible. Leases are as good as `lease.pml`
 * proves them.
 *
 * Assertions state the promises (P4, P6, P7, P8, P10, P11). A task that waits forever shows up as an invalid end state,
 * because workers stop only when every task has ended. Each flag (`#ifdef`) plants one mistake, and Spin must find it.
 */

#define TASKS 4
#define CHILD 2            /* It waits for 0 and 1, and LAST waits for it. */
#define LAST 3

#define ABSENT 0
#define WAITING 1
#define RUNNABLE 2
#define LEASED 3
#define COMPLETED 4
#define CANCELLED 5

#define is_final(task) (state[task] >= COMPLETED)
#define all_final (is_final(0) && is_final(1) && is_final(CHILD) && is_final(LAST))
#define bit(task) (1 << (task))
#define child_of(task) (task < CHILD -> CHILD : LAST)

byte state[TASKS];
bool cancel_requested[TASKS];
byte outcomes[TASKS];
byte waiting[TASKS];       /* The counter of open prerequisites. */
byte edges;                /* In the store, a bit for each prerequisite: nothing has two dependents. */
byte resolved;
byte ended;                /* Announced: the edges of these must be resolved in a transaction of its own. */
byte locked;               /* Rows that a settle, a cancel or a resolve has locked until its commit. */
byte shared;               /* Rows that the submit has locked FOR SHARE. */

inline finish(task, outcome) {
    state[task] = outcome; outcomes[task]++;
    assert(outcomes[task] <= 1)                  /* P4 */
}

inline resolve_edge(parent) {
    /* Within a commit whose transaction has locked the dependent. */
    if
    :: (edges & ~resolved & bit(parent)) != 0 ->
        resolved = resolved | bit(parent);
        assert(waiting[child_of(parent)] > 0);   /* P7 */
        waiting[child_of(parent)]--;
        if
#ifndef M16_CANCELLED_COMES_BACK
        :: state[child_of(parent)] == WAITING && state[parent] == COMPLETED && waiting[child_of(parent)] == 0 ->
#else
        :: state[parent] == COMPLETED && waiting[child_of(parent)] == 0 ->
#endif
            state[child_of(parent)] = RUNNABLE
        :: state[child_of(parent)] == WAITING && state[parent] == CANCELLED ->
            finish(child_of(parent), CANCELLED);
#ifndef CANCEL_STOPS_AT_DEPENDENT
            ended = ended | bit(child_of(parent))    /* The sweep goes on one level further down (P10). */
#endif
        :: else
        fi
    :: else
    fi
}

inline resolve_edges(parents) {
    /* Several ended prerequisites may have one dependent. */
#ifdef M15_COUNTED_ONCE
    if
    :: parents == (bit(0) | bit(1)) && (edges & ~resolved & parents) == parents -> resolved = resolved | bit(1)
    :: else
    fi;
#endif
    if
    :: (parents & bit(0)) != 0 -> resolve_edge(0)
    :: else
    fi;
    if
    :: (parents & bit(1)) != 0 -> resolve_edge(1)
    :: else
    fi;
    if
    :: (parents & bit(CHILD)) != 0 -> resolve_edge(CHILD)
    :: else
    fi
}

inline end_one(task) {
    if
    :: (mine & bit(task)) == 0 -> skip
    :: (mine & bit(task)) != 0 && state[task] == LEASED && !cancel_requested[task] -> finish(task, COMPLETED)
    :: (mine & bit(task)) != 0 && (state[task] != LEASED || cancel_requested[task]) -> finish(task, CANCELLED)
    fi
}

inline end_tasks() {
    /* The transaction that ends the tasks in `mine`, which it has locked: attempts that returned, or cancelled tasks. */
#ifndef M5_EDGES_SEEN_BEFORE_LOCK
    atomic {                                     /* The second statement looks for edges, and never waits. */
        open = edges & ~resolved & mine;
#else
    atomic {
#endif
        if
        :: open != 0 && (locked & bit(child)) == 0 -> locked = locked | bit(child)
        :: open != 0 && (locked & bit(child)) != 0 -> announced = true
        :: open == 0
        fi
    }
    atomic {                                     /* Commit. */
        end_one(0);
        end_one(1);
        end_one(CHILD);
        end_one(LAST);
        if
        :: open != 0 && !announced -> resolve_edges(open); locked = locked & ~bit(child)
#ifndef LOCKED_DEPENDENT_FORGOTTEN
        :: open != 0 && announced -> ended = ended | open
#else
        :: open != 0 && announced
#endif
        :: open == 0
        fi;
        locked = locked & ~mine;
        mine = 0; open = 0; child = 0; announced = false
    }
}

inline claim(task) {
    assert(!cancel_requested[task]);             /* P11 */
    assert(task != CHILD || (state[0] == COMPLETED && state[1] == COMPLETED));      /* P6 */
    assert(task != LAST || state[CHILD] == COMPLETED);
    state[task] = LEASED; mine = mine | bit(task)
}

#define claimable(task) (state[task] == RUNNABLE && ((locked | shared) & bit(task)) == 0)

proctype worker() {
    byte mine, open, child;
    bool announced;

again:
    if
    :: all_final -> goto stop
    :: atomic {
            claimable(0) -> claim(0);
            if
            :: claimable(1) -> claim(1)
            :: true
            fi
       }
       goto work
    :: atomic { claimable(1) -> claim(1) } goto work
    :: atomic { claimable(CHILD) -> claim(CHILD) } goto work
    :: atomic { claimable(LAST) -> claim(LAST) } goto work
    fi;

work:
#ifdef M5_EDGES_SEEN_BEFORE_LOCK
    open = edges & ~resolved & mine;
#endif
    atomic {                                     /* Waits for a submit that names these tasks, and for cancels of them. */
        ((locked | shared) & mine) == 0 -> locked = locked | mine;
        child = ((mine & (bit(0) | bit(1))) != 0 -> CHILD : LAST)
    };
    end_tasks();
    goto again;
stop:
    skip
}

proctype operator() {
    byte task, mine, open, child;
    bool announced;

end:                                             /* Or it cancels nothing. */
    if
    :: task = 0
    :: task = 1
    :: task = CHILD
    :: task = LAST
    fi;
    atomic {
        state[task] != ABSENT && ((locked | shared) & bit(task)) == 0 ->
        if
        :: state[task] == LEASED -> cancel_requested[task] = true; goto stop
        :: is_final(task) -> goto stop
        :: else -> mine = bit(task); locked = locked | mine; child = child_of(task)
        fi
    };
    end_tasks();
stop:
    skip
}

proctype sweeper() {
    /* Resolves what was announced, once the dependent is free. */
    byte rows;

end:
    do
    :: atomic {
            (ended & (bit(0) | bit(1))) != 0 && (locked & bit(CHILD)) == 0 ->
            rows = ended & (bit(0) | bit(1)); ended = ended & ~rows; locked = locked | bit(CHILD)
       }
       atomic { resolve_edges(rows); locked = locked & ~bit(CHILD); rows = 0 }
    :: atomic {
            (ended & bit(CHILD)) != 0 && (locked & bit(LAST)) == 0 ->
            rows = bit(CHILD); ended = ended & ~rows; locked = locked | bit(LAST)
       }
       atomic { resolve_edges(rows); locked = locked & ~bit(LAST); rows = 0 }
    od
}

proctype submitter() {
    byte seen[2];

#ifndef M4_NO_PARENT_LOCK
    atomic { (locked & bit(0)) == 0 -> shared = shared | bit(0); seen[0] = state[0] }
    atomic { (locked & bit(1)) == 0 -> shared = shared | bit(1); seen[1] = state[1] }
#else
    seen[0] = state[0];
    seen[1] = state[1];
#endif
    atomic {                                     /* Insert both tasks and their edges, and commit. */
        edges = bit(0) | bit(1) | bit(CHILD);
        waiting[LAST] = 1;
        if
        :: seen[0] >= COMPLETED -> resolved = resolved | bit(0)
        :: else -> waiting[CHILD]++
        fi;
        if
        :: seen[1] >= COMPLETED -> resolved = resolved | bit(1)
        :: else -> waiting[CHILD]++
        fi;
        state[LAST] = WAITING;
        if
        :: seen[0] == CANCELLED || seen[1] == CANCELLED ->
            finish(CHILD, CANCELLED); finish(LAST, CANCELLED);
            resolved = resolved | bit(CHILD); waiting[LAST] = 0
        :: else -> state[CHILD] = (waiting[CHILD] == 0 -> RUNNABLE : WAITING)
        fi;
        shared = 0; seen[0] = 0; seen[1] = 0
    }
}

init {
    atomic {
        state[0] = RUNNABLE;
        state[1] = RUNNABLE;
        run worker();
        run worker();
        run operator();
        run operator();
        run operator();
        run sweeper();
        run submitter()
    }
}
