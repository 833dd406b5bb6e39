/* The load of the service: N clients on connections that are kept, each of which asks again as soon as it is answered.
 *
 *     clients PORT CLIENTS SECONDS PATH [ANSWERS]
 *
 * Ends after so many seconds, or answers. Prints one line of JSON: answers; failed requests (another status than 200, a connection that broke or was refused; the client connects
 * again and goes on); how long the slowest client waited for its first answer, from its connect on (all of the time if it had none);
 * latencies of all later answers, all in microseconds; the least and the most answers of a client; and the share of a CPU that this process
 * itself used (near 1 it would be the bottleneck).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
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

enum { BATCH = 256, LARGEST = 4096 }; /* LARGEST: bytes of an answer, head and body */

struct client {
    int fd, received;
    uint64_t sent_at, first; /* first: microseconds; 0 until it is answered */
    long answers;
    char answer[LARGEST + 1];
};

static int epoll;
static struct sockaddr_in server = {.sin_family = AF_INET};
static char request[512];
static uint64_t began;
static long failed, answers, room;
static uint32_t *latencies; /* of `later` answers */
static long later;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t now(void) /* in microseconds */
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + t.tv_nsec / 1000;
}

static double cpu_seconds(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

static void watch(struct client *c, int how, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = c};
    if (epoll_ctl(epoll, how, c->fd, &event))
        die("epoll_ctl");
}

static void enter(struct client *c)
{
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        die("socket");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(c->fd, (struct sockaddr *)&server, sizeof server) && errno != EINPROGRESS && errno != ECONNREFUSED)
        die("connect");
    watch(c, EPOLL_CTL_ADD, EPOLLOUT);
}

static void fail(struct client *c)
{
    failed++;
    close(c->fd);
    enter(c);
}

static void ask(struct client *c)
{
    c->sent_at = now();
    c->received = 0;
    if (send(c->fd, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request))
        fail(c);
}

/* Return the bytes of the whole answer, or 0 while its head is not here. */
static long expected(struct client *c)
{
    c->answer[c->received] = 0;
    char *end = strstr(c->answer, "\r\n\r\n"), *length = strcasestr(c->answer, "\r\ncontent-length:");
    if (!end)
        return 0;
    if (!length || length > end) {
        fprintf(stderr, "an answer without Content-Length: %s\n", c->answer);
        exit(1);
    }
    return end + 4 - c->answer + strtol(length + strlen("\r\ncontent-length:"), NULL, 10);
}

static void count(struct client *c)
{
    uint64_t moment = now();
    if (strncmp(c->answer, "HTTP/1.1 200", 12)) {
        failed++;
        return;
    }
    answers++;
    if (!c->answers++) {
        c->first = moment - began;
        return;
    }
    if (later == room && !(latencies = realloc(latencies, (room = 2 * room + 65536) * sizeof *latencies)))
        die("realloc");
    latencies[later++] = moment - c->sent_at;
}

static void hear(struct client *c)
{
    ssize_t size = recv(c->fd, c->answer + c->received, LARGEST - c->received, 0);
    if (size < 0 && errno == EAGAIN)
        return;
    if (size <= 0) {
        fail(c);
        return;
    }
    c->received += size;
    long whole = expected(c);
    if (whole > LARGEST) {
        fprintf(stderr, "an answer of %ld bytes\n", whole);
        exit(1);
    }
    if (whole && c->received >= whole) {
        count(c);
        ask(c);
    }
}

static void act(struct client *c, uint32_t events)
{
    if (!(events & EPOLLOUT)) {
        hear(c);
        return;
    }
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error || events & EPOLLERR) {
        fail(c);
        return;
    }
    watch(c, EPOLL_CTL_MOD, EPOLLIN);
    ask(c);
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint32_t percentile(double percent)
{
    return later ? latencies[(long)((later - 1) * percent / 100 + 0.5)] : 0;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: clients PORT CLIENTS SECONDS PATH [ANSWERS]\n");
        return 2;
    }
    int number = atoi(argv[2]);
    double seconds = atof(argv[3]);
    long enough = argc > 5 ? atol(argv[5]) : LONG_MAX;
    struct client *clients = calloc(number, sizeof *clients);
    struct epoll_event ready[BATCH];
    server.sin_port = htons(atoi(argv[1]));
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\n\r\n", argv[4], argv[1]);
    epoll = epoll_create1(0);
    if (!clients || epoll < 0)
        die("no memory or epoll");
    began = now();
    uint64_t end = began + (uint64_t)(seconds * 1e6), moment;
    for (int i = 0; i < number; i++)
        enter(&clients[i]);
    while (answers < enough && (moment = now()) < end) {
        int count = epoll_wait(epoll, ready, BATCH, (int)((end - moment) / 1000 + 1));
        for (int i = 0; i < count; i++)
            act(ready[i].data.ptr, ready[i].events);
    }
    uint64_t elapsed = now() - began, first = 0;
    long least = clients[0].answers, most = 0;
    for (int i = 0; i < number; i++) {
        uint64_t own = clients[i].answers ? clients[i].first : elapsed;
        first = own > first ? own : first;
        least = clients[i].answers < least ? clients[i].answers : least;
        most = clients[i].answers > most ? clients[i].answers : most;
    }
    if (later)
        qsort(latencies, later, sizeof *latencies, by_size);
    printf("{\"answers\": %ld, \"seconds\": %.6f, \"failed\": %ld, \"first\": %lu, \"least\": %ld, \"most\": %ld, "
           "\"p50\": %u, \"p90\": %u, \"p99\": %u, \"max\": %u, \"client\": %.3f}\n",
           answers, elapsed * 1e-6, failed, (unsigned long)first, least, most, percentile(50), percentile(90), percentile(99),
           percentile(100), cpu_seconds() / (elapsed * 1e-6));
    return 0;
}
