/* The backend of `benchmarks.pipeline`: it answers each request of HTTP/1.1 after a delay, with the number of the call.
 *
 *     backend MILLISECONDS
 *
 * Prints its port. All delays are equal, so that what is due stands in a queue. While calls are due it looks at its
 * sockets ten times in a millisecond rather than whenever something comes: it shares a CPU with the load, and takes few
 * turns from it. A delay is thus up to 0.2 ms longer than asked for, never shorter.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 1 << 16, CALLS = 1 << 17, BATCH = 512, PAUSE = 100000 }; /* PAUSE: nanoseconds */

static struct connection {
    uint32_t opened; /* how many have had this number so far: a call whose client has gone is dropped */
    int matched;     /* bytes of the empty line that ends a head */
} connections[CONNECTIONS];

static struct call {
    uint64_t due;
    uint32_t opened;
    int fd;
} calls[CALLS];

static uint64_t asked, answered;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

static int listening(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) || listen(fd, 4096))
        die("listen");
    getsockname(fd, (struct sockaddr *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

static void watch(int poller, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event))
        die("epoll_ctl");
}

static void let_in(int poller, int listener)
{
    int fd, on = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        if (fd >= CONNECTIONS) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        connections[fd].opened++;
        connections[fd].matched = 0;
        watch(poller, fd);
    }
}

static void drop(int fd)
{
    connections[fd].opened++;
    close(fd);
}

static void take_call(int fd, uint64_t due)
{
    if (asked - answered == CALLS) {
        fprintf(stderr, "more than %d calls at once\n", CALLS);
        exit(1);
    }
    calls[asked++ % CALLS] = (struct call){due, connections[fd].opened, fd};
}

/* Take a call for each head that ends in what was received: no request has a body. */
static void hear(int fd, uint64_t due)
{
    static const char end[] = "\r\n\r\n";
    char data[4096];
    struct connection *c = &connections[fd];
    ssize_t size = recv(fd, data, sizeof data, 0);
    if (size == 0 || (size < 0 && errno != EAGAIN))
        drop(fd);
    for (ssize_t i = 0; i < size; i++) {
        c->matched = data[i] == end[c->matched] ? c->matched + 1 : data[i] == '\r';
        if (c->matched == 4) {
            c->matched = 0;
            take_call(fd, due);
        }
    }
}

static void answer(struct call *call)
{
    char text[128];
    int size = sprintf(text, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 11\r\n\r\n%010llu\n",
                       (unsigned long long)++answered % 10000000000u);
    if (call->opened == connections[call->fd].opened && send(call->fd, text, size, MSG_NOSIGNAL) != size)
        drop(call->fd); /* it reads nothing, or has gone */
}

static void answer_all_due(uint64_t moment)
{
    while (answered < asked && calls[answered % CALLS].due <= moment)
        answer(&calls[answered % CALLS]);
}

int main(int argc, char **argv)
{
    char *rest = "";
    double milliseconds = argc == 2 ? strtod(argv[1], &rest) : -1;
    if (milliseconds < 0 || *rest) {
        fprintf(stderr, "usage: backend MILLISECONDS\n");
        return 2;
    }
    uint64_t delay = (uint64_t)(milliseconds * 1e6);
    struct timespec pause = {.tv_nsec = PAUSE};
    int poller = epoll_create1(EPOLL_CLOEXEC), listener = listening();
    prctl(PR_SET_TIMERSLACK, 1); /* otherwise a pause is 50 microseconds longer */
    watch(poller, listener);
    for (;;) {
        struct epoll_event events[BATCH];
        int ready = epoll_wait(poller, events, BATCH, answered == asked ? -1 : 0);
        uint64_t moment = now();
        if (ready < 0 && errno != EINTR)
            die("epoll_wait");
        for (int i = 0; i < ready; i++) {
            if (events[i].data.fd == listener)
                let_in(poller, listener);
            else
                hear(events[i].data.fd, moment + delay);
        }
        answer_all_due(now());
        if (ready < BATCH && answered < asked)
            nanosleep(&pause, NULL);
    }
}
