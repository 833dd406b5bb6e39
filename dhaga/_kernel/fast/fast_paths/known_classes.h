/* The list of Dhaga's classes that C knows, and of their slots that C reads or writes. Each is declared only here;
classes.h makes the variables and tables from this list.

KNOWN_CLASS(variable, module, name): a base comes before the classes derived from it.
KNOWN_SLOT(class, variable, name): the variable holds the offset of the slot in an object.
GUARD_SLOT(class, variable): the same for an object's guard, which exists only on free-threaded builds. */

#ifdef Py_GIL_DISABLED
#define GUARD_SLOT(class, variable) KNOWN_SLOT(class, variable, "_guard")
#else
#define GUARD_SLOT(class, variable)
#endif

KNOWN_CLASS(Dhaga, "dhaga._kernel.run.microthread", "Dhaga")
KNOWN_SLOT(Dhaga, dhaga_scheduler, "scheduler")
KNOWN_SLOT(Dhaga, dhaga_queue, "wake_queue")
KNOWN_SLOT(Dhaga, dhaga_pending, "pending_errors")
KNOWN_SLOT(Dhaga, dhaga_parked, "parked")
KNOWN_SLOT(Dhaga, dhaga_target, "wait_target")
KNOWN_SLOT(Dhaga, dhaga_reason, "park_reason")
KNOWN_SLOT(Dhaga, dhaga_value, "_value")
KNOWN_SLOT(Dhaga, dhaga_error, "_error")
KNOWN_SLOT(Dhaga, dhaga_since, "parked_since")
KNOWN_SLOT(Dhaga, dhaga_done, "has_ended")
KNOWN_SLOT(Dhaga, dhaga_fn, "_fn")
KNOWN_SLOT(Dhaga, dhaga_args, "_args")
KNOWN_SLOT(Dhaga, dhaga_kwargs, "_kwargs")
KNOWN_SLOT(Dhaga, dhaga_joiners, "_joiners")
KNOWN_SLOT(Dhaga, dhaga_thread_local_refs, "thread_local_refs")
KNOWN_SLOT(Dhaga, dhaga_arrival, "arrival")
KNOWN_SLOT(Dhaga, dhaga_priority, "own_priority")
KNOWN_SLOT(Dhaga, dhaga_ident, "ident")
KNOWN_SLOT(Dhaga, dhaga_own_name, "own_name")
KNOWN_SLOT(Dhaga, dhaga_daemon, "daemon")
KNOWN_SLOT(Dhaga, dhaga_result_waiters, "result_waiters")

KNOWN_CLASS(Scheduler, "dhaga._kernel.run.scheduler", "Scheduler")
KNOWN_SLOT(Scheduler, scheduler_run_queue, "run_queue")
KNOWN_SLOT(Scheduler, scheduler_next_poll_at, "_next_poll_at")
KNOWN_SLOT(Scheduler, scheduler_switches_left, "_switches_left")
KNOWN_SLOT(Scheduler, scheduler_around_park, "around_park")
KNOWN_SLOT(Scheduler, scheduler_asleep, "asleep")
KNOWN_SLOT(Scheduler, scheduler_lap_over, "_lap_over")
KNOWN_SLOT(Scheduler, scheduler_hub, "hub")
KNOWN_SLOT(Scheduler, scheduler_low, "_low")
KNOWN_SLOT(Scheduler, scheduler_new_work, "_new_work")
KNOWN_SLOT(Scheduler, scheduler_preempted, "_preempted")
KNOWN_SLOT(Scheduler, scheduler_poller, "poller")
KNOWN_SLOT(Scheduler, scheduler_clock, "clock")
KNOWN_SLOT(Scheduler, scheduler_turn_ends_at, "turn_ends_at")
KNOWN_SLOT(Scheduler, scheduler_timers, "timers")
KNOWN_SLOT(Scheduler, scheduler_live, "live")
KNOWN_SLOT(Scheduler, scheduler_next_on_hub, "_next_on_hub")
KNOWN_SLOT(Scheduler, scheduler_traced, "_traced")
KNOWN_SLOT(Scheduler, scheduler_closing, "closing")
KNOWN_SLOT(Scheduler, scheduler_end_reason, "_end_reason")
KNOWN_SLOT(Scheduler, scheduler_new_queues, "new_queues")

KNOWN_CLASS(NewQueue, "dhaga._kernel.run.scheduler", "NewQueue")
KNOWN_SLOT(NewQueue, new_queue_scheduler, "scheduler")
KNOWN_SLOT(NewQueue, new_queue_not_started, "not_started")

KNOWN_CLASS(Timers, "dhaga._kernel.run.timers", "Timers")
KNOWN_SLOT(Timers, timers_heap, "heap")
KNOWN_SLOT(Timers, timers_sequence, "sequence")
KNOWN_SLOT(Timers, timers_discarded, "discarded")
KNOWN_SLOT(Timers, timers_fired, "fired")
KNOWN_SLOT(Timers, timers_urgent, "urgent")

KNOWN_CLASS(WaitQueue, "dhaga._kernel.wait.wait_queue", "WaitQueue")
KNOWN_SLOT(WaitQueue, wait_queue_reason, "reason")
KNOWN_SLOT(WaitQueue, wait_queue_closed, "closed")
KNOWN_SLOT(WaitQueue, wait_queue_epoch, "epoch")
GUARD_SLOT(WaitQueue, wait_queue_guard)

KNOWN_CLASS(OwnedLock, "dhaga._sync.lock", "OwnedLock")
KNOWN_SLOT(OwnedLock, lock_holder, "_holder")
KNOWN_SLOT(OwnedLock, lock_waiters, "_waiters")
GUARD_SLOT(OwnedLock, lock_guard)

KNOWN_CLASS(Lock, "dhaga._sync.lock", "Lock")

KNOWN_CLASS(RLock, "dhaga._sync.lock", "RLock")
KNOWN_SLOT(RLock, rlock_count, "_count")

KNOWN_CLASS(Event, "dhaga._sync.event", "Event")
KNOWN_SLOT(Event, event_flag, "_flag")
KNOWN_SLOT(Event, event_waiters, "_waiters_")
KNOWN_SLOT(Event, event_spare, "_spare_queue_")
GUARD_SLOT(Event, event_guard)

KNOWN_CLASS(Semaphore, "dhaga._sync.semaphore", "Semaphore")
KNOWN_SLOT(Semaphore, semaphore_value, "_value")
KNOWN_SLOT(Semaphore, semaphore_waiters, "_waiters_")
GUARD_SLOT(Semaphore, semaphore_guard)

KNOWN_CLASS(BoundedSemaphore, "dhaga._sync.semaphore", "BoundedSemaphore")
KNOWN_SLOT(BoundedSemaphore, bounded_initial_value, "_initial_value")

KNOWN_CLASS(Mutex, "dhaga._sync.mutex", "Mutex")
KNOWN_SLOT(Mutex, mutex_free, "_free")
GUARD_SLOT(Mutex, mutex_guard)

KNOWN_CLASS(Queue, "dhaga.queue", "Queue")
KNOWN_SLOT(Queue, queue_maxsize, "maxsize")
KNOWN_SLOT(Queue, queue_unfinished, "unfinished_tasks")
KNOWN_SLOT(Queue, queue_is_shutdown, "is_shutdown")
KNOWN_SLOT(Queue, queue_mutex, "mutex")
KNOWN_SLOT(Queue, queue_getters, "_getters_")
KNOWN_SLOT(Queue, queue_putters, "_putters_")
KNOWN_SLOT(Queue, queue_handed_over, "_handed_over_")
KNOWN_SLOT(Queue, queue_hands_over, "_hands_over_")
KNOWN_SLOT(Queue, queue_stock, "_stock_")

KNOWN_CLASS(SimpleQueue, "dhaga._sync.simple_queue", "SimpleQueue")
KNOWN_SLOT(SimpleQueue, simple_queue_items, "_items_")
KNOWN_SLOT(SimpleQueue, simple_queue_getters, "_getters_")
KNOWN_SLOT(SimpleQueue, simple_queue_handed_over, "_handed_over_")
GUARD_SLOT(SimpleQueue, simple_queue_guard)

KNOWN_CLASS(Epoll, "dhaga._kernel.run.edge_pollers", "Epoll")
KNOWN_SLOT(Epoll, epoll_epoll, "epoll")
KNOWN_SLOT(Epoll, epoll_watchers, "watchers")
KNOWN_SLOT(Epoll, epoll_sharers, "fd_sharers")
KNOWN_SLOT(Epoll, epoll_events, "events")
KNOWN_SLOT(Epoll, epoll_to_recheck, "to_recheck")

KNOWN_CLASS(FdWatcher, "dhaga._kernel.run.fd_watch", "FdWatcher")
KNOWN_SLOT(FdWatcher, watcher_readable, "readable")
KNOWN_SLOT(FdWatcher, watcher_readers, "readers")
KNOWN_SLOT(FdWatcher, watcher_writers, "writers")
KNOWN_SLOT(FdWatcher, watcher_scheduler, "scheduler")
KNOWN_SLOT(FdWatcher, watcher_poller, "poller")
KNOWN_SLOT(FdWatcher, watcher_read_reason, "read_reason")
KNOWN_SLOT(FdWatcher, watcher_watched, "watched")
KNOWN_SLOT(FdWatcher, watcher_short_read_means_empty, "short_read_means_empty")
KNOWN_SLOT(FdWatcher, watcher_may_have_more, "may_have_more")

KNOWN_CLASS(Socket, "dhaga.socket", "socket")
KNOWN_SLOT(Socket, socket_watcher, "watcher_")
KNOWN_SLOT(Socket, socket_watchers, "watchers_")
KNOWN_SLOT(Socket, socket_call_timeout, "call_timeout_")
KNOWN_SLOT(Socket, socket_sends_until_check, "sends_until_check")

KNOWN_CLASS(SSLSocket, "dhaga.ssl", "SSLSocket")

KNOWN_CLASS(Local, "dhaga._sync.local", "local")
KNOWN_SLOT(Local, local_namespaces, "_namespaces_")

KNOWN_CLASS(IdleTimer, "dhaga.http._server.idle_timer", "IdleTimer")
KNOWN_SLOT(IdleTimer, idle_timer_me, "me")
KNOWN_SLOT(IdleTimer, idle_timer_waiter, "waiter")
KNOWN_SLOT(IdleTimer, idle_timer_deadline, "deadline")
KNOWN_SLOT(IdleTimer, idle_timer_timer, "timer")

KNOWN_CLASS(Limits, "dhaga.http.limits", "Limits")
KNOWN_SLOT(Limits, limits_line, "line")

KNOWN_CLASS(RequestParser, "dhaga.http._server.request_parser", "RequestParser")
KNOWN_SLOT(RequestParser, parser_buffer, "buffer")
KNOWN_SLOT(RequestParser, parser_known_block, "known_block")
KNOWN_SLOT(RequestParser, parser_known_fields, "known_fields")
KNOWN_SLOT(RequestParser, parser_limits, "limits")
KNOWN_SLOT(RequestParser, parser_complete, "complete")
KNOWN_SLOT(RequestParser, parser_persistent, "persistent")
KNOWN_SLOT(RequestParser, parser_expects_continue, "expects_continue")
KNOWN_SLOT(RequestParser, parser_line_valid, "line_valid")
KNOWN_SLOT(RequestParser, parser_chunk_sizes, "chunk_sizes")
KNOWN_SLOT(RequestParser, parser_scanned, "scanned")
KNOWN_SLOT(RequestParser, parser_error, "error")

KNOWN_CLASS(ServerConnection, "dhaga.http._server.connection", "ServerConnection")
KNOWN_SLOT(ServerConnection, connection_peer, "peer")
KNOWN_SLOT(ServerConnection, connection_parser, "parser")
KNOWN_SLOT(ServerConnection, connection_body_wait, "body_wait")
KNOWN_SLOT(ServerConnection, connection_server, "server")
KNOWN_SLOT(ServerConnection, connection_server_fields, "server_fields")
KNOWN_SLOT(ServerConnection, connection_closing, "closing")

KNOWN_CLASS(ServerFields, "dhaga.http._server.response", "ServerFields")
KNOWN_SLOT(ServerFields, fields_both_fields, "both_fields")
KNOWN_SLOT(ServerFields, fields_until, "until")
KNOWN_SLOT(ServerFields, fields_known_start, "known_start")

KNOWN_CLASS(Response, "dhaga.http._server.response", "Response")
KNOWN_SLOT(Response, response_sink, "sink")
KNOWN_SLOT(Response, response_status, "status")
KNOWN_SLOT(Response, response_sent, "sent")
KNOWN_SLOT(Response, response_lines, "lines")
KNOWN_SLOT(Response, response_length, "length")
KNOWN_SLOT(Response, response_app_fields, "app_fields")
KNOWN_SLOT(Response, response_version, "version")
KNOWN_SLOT(Response, response_bodiless, "bodiless")
KNOWN_SLOT(Response, response_chunked, "chunked")
KNOWN_SLOT(Response, response_remaining, "remaining")

#undef KNOWN_CLASS
#undef KNOWN_SLOT
#undef GUARD_SLOT
