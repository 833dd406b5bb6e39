/* The load of the echo rows: N connections, each with one message in flight, from one epoll loop.
 *
 *     load PORT CONNECTIONS BYTES WARM_UP_SECONDS SECONDS
 *
 * Prints the line "measuring" when the warm-up is over, then one line of JSON: messages a second, latencies in microseconds, and the
 * share of a CPU that this process itself used (near 1 it would be the bottleneck). Every first echo is compared byte for byte,
 * later ones by length. At the end no new message is sent and the last echoes are awaited, so that no server sees a reset.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 512, LARGEST = 65536, SLOWEST = 2000000 }; /* SLOWEST: microseconds, the last bucket of the histogram */

struct connection {
    int fd;
    int received;
    uint64_t sent_at;
};

static uint32_t histogram[SLOWEST + 1];
static char message[LARGEST], buffer[LARGEST];
static int size;
static uint64_t echoes;

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

static double cpu_seconds(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

static void say(struct connection *c, uint64_t moment)
{
    c->sent_at = moment;
    c->received = 0;
    if (send(c->fd, message, size, MSG_NOSIGNAL) != size)
        die("send");
}

static void check_first_echo(struct connection *c)
{
    say(c, now());
    if (recv(c->fd, buffer, size, MSG_WAITALL) != size || memcmp(buffer, message, size)) {
        fprintf(stderr, "the server does not echo\n");
        exit(1);
    }
}

static void open_connection(struct connection *c, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if ((c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0)
        die("socket");
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address))
        die("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    check_first_echo(c);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
}

/* Returns whether the message has come back as a whole. */
static int hear(struct connection *c)
{
    ssize_t got = recv(c->fd, buffer, size - c->received, 0);
    if (got < 0 && errno == EAGAIN)
        return 0;
    if (got <= 0)
        die("recv");
    return (c->received += got) == size;
}

static void record(uint64_t nanoseconds)
{
    uint64_t microseconds = nanoseconds / 1000;
    histogram[microseconds < SLOWEST ? microseconds : SLOWEST]++;
    echoes++;
}

/* Echo until the moment `end`; then, if `last`, only collect what is in flight. */
static void run(int poller, int connections, uint64_t end, int last)
{
    struct epoll_event events[BATCH];
    int in_flight = connections;
    while (in_flight) {
        int ready = epoll_wait(poller, events, BATCH, 1000);
        uint64_t moment = now();
        if (ready < 0 && errno != EINTR)
            die("epoll_wait");
        if (!last && moment >= end && ready <= 0)
            return;
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            if (!hear(c))
                continue;
            moment = now();
            if (last && moment >= end) {
                in_flight--;
                continue;
            }
            record(moment - c->sent_at);
            say(c, moment);
        }
        if (!last && moment >= end)
            return;
        if (last && moment > end + 2000000000u)
            return; /* a server that lost one shall not hang us */
    }
}

static int percentile(double share)
{
    uint64_t passed = 0;
    for (int microseconds = 0; microseconds <= SLOWEST; microseconds++)
        if ((passed += histogram[microseconds]) >= share * echoes)
            return microseconds;
    return SLOWEST;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: load PORT CONNECTIONS BYTES WARM_UP_SECONDS SECONDS\n");
        return 2;
    }
    int port = atoi(argv[1]), connections = atoi(argv[2]);
    double warm_up = atof(argv[4]), seconds = atof(argv[5]);
    size = atoi(argv[3]);
    if (size < 1 || size > LARGEST)
        return 2;
    for (int i = 0; i < size; i++)
        message[i] = (char)('a' + i % 26);

    struct connection *all = calloc(connections, sizeof *all);
    int poller = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < connections; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
        open_connection(&all[i], port);
        if (epoll_ctl(poller, EPOLL_CTL_ADD, all[i].fd, &event))
            die("epoll_ctl");
    }
    for (int i = 0; i < connections; i++)
        say(&all[i], now());
    run(poller, connections, now() + (uint64_t)(warm_up * 1e9), 0);

    puts("measuring");
    fflush(stdout);
    memset(histogram, 0, sizeof histogram);
    echoes = 0;
    double cpu = cpu_seconds();
    uint64_t started = now(), end = started + (uint64_t)(seconds * 1e9);
    run(poller, connections, end, 0);
    double elapsed = (now() - started) * 1e-9;
    cpu = cpu_seconds() - cpu;
    printf("{\"rate\": %.1f, \"p50\": %d, \"p99\": %d, \"p999\": %d, \"cpu\": %.3f}\n", echoes / elapsed, percentile(0.5),
           percentile(0.99), percentile(0.999), cpu / elapsed);
    fflush(stdout);
    run(poller, connections, now(), 1);
    return 0;
}
