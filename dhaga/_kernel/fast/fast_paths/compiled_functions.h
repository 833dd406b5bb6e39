/* The list of the compiled functions. Each function is declared only here: the enumeration in classes.h and the table
in _fast_paths.c are made from this list, and the tests read it as compiled.python_functions.

COMPILED(constant, class, name, function): by the constant, C calls the Python twin. The class is in known_classes.h.
The name is the twin's. ANY, ONE or NONE around the C function says which arguments the function accepts besides self.
COMPILED_FUNCTION(constant, module, name, function): the same for a function of a module, given by the module's name.

To add one, tag the Python function @compiled, and say beside the tag what C assumes of the arguments or objects. Then
add a row here, and write the C function in the file of its subject. */

/* park.h */
COMPILED(PARK, &Scheduler, "_park", ONE(scheduler__park))
COMPILED(PREPARE, &Dhaga, "prepare_park", ANY(dhaga_prepare_park))

/* wake.h */
COMPILED(WAKE, &Dhaga, "wake_parked", ANY(dhaga_wake_parked))
COMPILED(RESUME, &Dhaga, "deliver_wake", ANY(dhaga_deliver_wake))

/* timers.h */
COMPILED(TIMERS_ADD, &Timers, "add", ANY(timers_add))
COMPILED(TIMERS_DISCARD, &Timers, "discard", ONE(timers_discard))
COMPILED(FIRE, &Timers, "fire", ONE(timers_fire))
COMPILED(EXPIRE, &Dhaga, "_expire", NONE(dhaga__expire))
COMPILED(PARK_UNTIL, &Dhaga, "park_within", ONE(dhaga_park_within))
COMPILED_FUNCTION(SLEEP, "dhaga._kernel.run.scheduler", "sleep", ANY(sleep_))
COMPILED_FUNCTION(TIME_SLEEP, "dhaga.time", "sleep", ANY(time_sleep))

/* spawn.h */
COMPILED(SET_UP, &Dhaga, "set_up_dhaga", ANY(dhaga_set_up_dhaga))
COMPILED(ADMIT, &Scheduler, "admit", ONE(scheduler_admit))
COMPILED(RUN, &Dhaga, "run", ANY(dhaga_run))

/* join.h */
COMPILED(WAIT_FOR_END, &Dhaga, "wait_for_end", ONE(dhaga_wait_for_end))
COMPILED(END, &Dhaga, "_end", NONE(dhaga__end))

/* epoll.h */
COMPILED(POLL, &Epoll, "poll", NONE(epoll_poll))
COMPILED_FUNCTION(HAS_EVENT, "dhaga._kernel.run.loop", "has_event", ONE(has_event))

/* wait_queue.h */
COMPILED(WAIT, &WaitQueue, "wait", ANY(wait_queue_wait))
COMPILED(WAKE_FIRST, &WaitQueue, "wake_first", ANY(wait_queue_wake_first))

/* lock.h */
COMPILED(HAND_OVER_WAIT, &OwnedLock, "_wait_for_hand_over", ANY(ownedlock__wait_for_hand_over))
COMPILED(LOCK_ACQUIRE, &Lock, "acquire", ANY(lock_acquire))
COMPILED(LOCK_RELEASE, &Lock, "release", ANY(lock_release))
COMPILED(LOCK_ENTER, &Lock, "__enter__", NONE(lock___enter__))
COMPILED(RLOCK_ACQUIRE, &RLock, "acquire", ANY(rlock_acquire))
COMPILED(RLOCK_RELEASE, &RLock, "release", ANY(rlock_release))
COMPILED(RLOCK_ENTER, &RLock, "__enter__", NONE(rlock___enter__))

/* event.h */
COMPILED(EVENT_SET, &Event, "set", NONE(event_set))
COMPILED(EVENT_WAIT, &Event, "wait", ANY(event_wait))

/* semaphore.h */
COMPILED(SEMAPHORE_ACQUIRE, &Semaphore, "acquire", ANY(semaphore_acquire))
COMPILED(SEMAPHORE_RELEASE, &Semaphore, "release", ANY(semaphore_release))
COMPILED(SEMAPHORE_ENTER, &Semaphore, "__enter__", NONE(semaphore___enter__))
COMPILED(SEMAPHORE_EXIT, &Semaphore, "__exit__", ANY(semaphore___exit__))
COMPILED(BOUNDED_RELEASE, &BoundedSemaphore, "release", ANY(bounded_semaphore_release))

/* queue.h */
COMPILED(QUEUE_PUT, &Queue, "put", ANY(queue_put))
COMPILED(QUEUE_GET, &Queue, "get", ANY(queue_get))

/* simple_queue.h */
COMPILED(SIMPLE_QUEUE_PUT, &SimpleQueue, "put", ANY(simple_queue_put))
COMPILED(SIMPLE_QUEUE_GET, &SimpleQueue, "get", ANY(simple_queue_get))

/* socket.h */
COMPILED(SOCKET_RECV, &Socket, "recv", ANY(socket_recv))
COMPILED(SOCKET_RECV_INTO, &Socket, "recv_into", ANY(socket_recv_into))

/* socket_send.h */
COMPILED(SOCKET_SEND, &Socket, "send", ANY(socket_send))
COMPILED(SOCKET_SENDALL, &Socket, "sendall", ANY(socket_sendall))

/* tls.h */
COMPILED(TLS_RECV, &SSLSocket, "recv", ANY(sslsocket_recv))
COMPILED(TLS_READ, &SSLSocket, "read", ANY(sslsocket_read))
COMPILED(TLS_WRITE, &SSLSocket, "write", ONE(sslsocket_write))

/* caller.h */
COMPILED_FUNCTION(GET_IDENT, "dhaga.threading", "get_ident", NONE(get_ident))
COMPILED(LOCAL_GETATTRIBUTE, &Local, "__getattribute__", ONE(local___getattribute__))

/* idle_timer.h */
COMPILED(IDLE_TIMER_ARM, &IdleTimer, "arm", ONE(idle_timer_arm))

/* request_head.h */
COMPILED(REQUEST_HEAD, &RequestParser, "head", ONE(request_parser_head))
COMPILED(FILL_ENVIRON, &ServerConnection, "fill_environ", ONE(server_connection_fill_environ))

/* response_head.h */
COMPILED(RESPONSE_START, &Response, "start", ANY(response_start))
COMPILED(RESPONSE_HEAD, &Response, "head", ANY(response_head))

#undef COMPILED
#undef COMPILED_FUNCTION
