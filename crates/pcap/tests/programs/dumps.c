/* Writes captured packets with pcap_dump: dumps CASE DEVICE PATH */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "handle.h"

typedef struct pcap_dumper pcap_dumper_t;
pcap_dumper_t *pcap_dump_open(pcap_t *, const char *);
void pcap_dump(unsigned char *, const struct pcap_pkthdr *, const unsigned char *);
FILE *pcap_dump_file(pcap_dumper_t *);
long pcap_dump_ftell(pcap_dumper_t *);
int pcap_dump_flush(pcap_dumper_t *);
void pcap_dump_close(pcap_dumper_t *);

static const char *path;
static pcap_dumper_t *dumper, *other;
/* The size of the file once all dumped packets are written. */
static long due = 24;

static pcap_dumper_t *opened(const char *suffix) {
    char name[4096];
    snprintf(name, sizeof name, "%s%s", path, suffix);
    pcap_dumper_t *found = pcap_dump_open(handle, name);
    CHECK(found);
    return found;
}

static long size(void) {
    struct stat about;
    CHECK(stat(path, &about) == 0);
    return about.st_size;
}

static void dump(unsigned char *user, const struct pcap_pkthdr *header, const unsigned char *bytes) {
    (void)user;
    seen++;
    pcap_dump((unsigned char *)dumper, header, bytes);
    due += 16 + header->caplen;
}

/* Two dumpers at the same time, one of which is queried in all ways. */
static void look(unsigned char *user, const struct pcap_pkthdr *header, const unsigned char *bytes) {
    pcap_dump((unsigned char *)other, header, bytes);
    dump(user, header, bytes);
    if (seen % 100 == 0) CHECK(pcap_dump_ftell(dumper) == due);
    if (seen % 1000 == 0) CHECK(pcap_dump_flush(dumper) == 0 && size() == due);
    if (seen == 15000) CHECK(fflush(pcap_dump_file(dumper)) == 0 && size() == due);
    if (seen > 15000) CHECK(ftell((FILE *)dumper) == due);
}

/* A file for each 3,000 packets, closed when the next packet needs another one. */
static void rotate(unsigned char *user, const struct pcap_pkthdr *header, const unsigned char *bytes) {
    if (seen && seen % 3000 == 0) {
        pcap_dump_close(dumper);
        CHECK(size() == due);
        dumper = opened("");
        due = 24;
    }
    dump(user, header, bytes);
}

static void leave(unsigned char *user, const struct pcap_pkthdr *header, const unsigned char *bytes) {
    dump(user, header, bytes);
    if (seen < limit) return;
    printf("%ld\n", due);
    exit(0);
}

/* A signal handler that flushes at any moment, like tcpdump's for SIGUSR2. */
static volatile int flushes;
static void flush(int signal) {
    (void)signal;
    pcap_dump_flush(dumper);
    flushes++;
}

/* Flushes every `us`, or never if 0. The interval must exceed the slack of a sleep, 50 us
 * (PR_SET_TIMERSLACK): otherwise no sleep would end. */
static void flush_each(long us) {
    struct itimerval each = {{0, us}, {0, us}};
    struct sigaction action = {.sa_handler = flush, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &each, NULL) == 0);
}

/* Another thread flushes, too, until the end. */
static volatile int is_over;
static void *flush_on(void *unused) {
    while (!is_over) flush(0);
    return unused;
}

static void dump_often(unsigned char *user, const struct pcap_pkthdr *header, const unsigned char *bytes) {
    for (int times = 0; times < 11; times++) dump(user, header, bytes);
}

static void *dump_on(void *unused) {
    CHECK(pcap_loop(handle, -1, dump, NULL) == 0);
    pcap_dump_close(dumper);
    return unused;
}

/* In a child whose parent is in a write: dumps 100 packets to a file of its own. */
static void dump_in_child(void) {
    alarm(60);
    dumper = opened(".child");
    seen = 0;
    CHECK(pcap_loop(handle, 100, dump, NULL) == 0 && seen == 100);
    pcap_dump_close(dumper);
    _exit(0);
}

/* Another thread dumps to a pipe that is full when this one makes a child. Copies what comes out. */
static void with_child(void) {
    char bytes[4096];
    int code = 1;
    long copied = 0;
    pthread_t thread;
    CHECK(mkfifo(path, 0600) == 0);
    int out = open(path, O_RDONLY | O_NONBLOCK);
    struct pollfd in = {.fd = open(path, O_WRONLY), .events = POLLOUT};
    CHECK(out >= 0 && in.fd >= 0 && fcntl(out, F_SETPIPE_SZ, 4096) >= 0);
    dumper = opened("");
    CHECK(pthread_create(&thread, NULL, dump_on, NULL) == 0);
    while (poll(&in, 1, 0) == 1) usleep(1000);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) dump_in_child();
    CHECK(waitpid(child, &code, 0) == child && code == 0);
    CHECK(close(in.fd) == 0 && fcntl(out, F_SETFL, 0) == 0);
    snprintf(bytes, sizeof bytes, "%s.copy", path);
    FILE *copy = fopen(bytes, "w");
    for (ssize_t got; (got = read(out, bytes, sizeof bytes)) > 0; copied += got)
        CHECK(fwrite(bytes, 1, (size_t)got, copy) == (size_t)got);
    CHECK(pthread_join(thread, NULL) == 0 && copied == due && fclose(copy) == 0);
}

int main(int words, char **word) {
    if (words != 4) return 2;
    path = word[3];
    handle = pcap_open_live(word[2], 0, 1, 100, error);
    CHECK(handle);
    if (!strcmp(word[1], "exit")) {
        dumper = opened("");
        limit = 1234;
        pcap_loop(handle, -1, leave, NULL);
        return 1;
    }
    if (!strcmp(word[1], "full")) {
        dumper = opened("");
        CHECK(pcap_loop(handle, -1, dump, NULL) == 0);
        CHECK(ferror(pcap_dump_file(dumper)));
        return 0;
    }
    if (!strcmp(word[1], "handler")) {
        dumper = opened("");
        flush_each(200);
        CHECK(pcap_loop(handle, -1, dump_often, NULL) == 0);
        flush_each(0);
        CHECK(flushes > 10);
        pcap_dump_close(dumper);
        printf("%ld\n", due);
        return 0;
    }
    if (!strcmp(word[1], "thread")) {
        pthread_t thread;
        dumper = opened("");
        CHECK(pthread_create(&thread, NULL, flush_on, NULL) == 0);
        CHECK(pcap_loop(handle, -1, dump_often, NULL) == 0);
        is_over = 1;
        CHECK(pthread_join(thread, NULL) == 0 && flushes > 10);
        pcap_dump_close(dumper);
        printf("%ld\n", due);
        return 0;
    }
    if (!strcmp(word[1], "fork")) {
        with_child();
        return 0;
    }
    other = opened(".other");
    dumper = opened("");
    CHECK(pcap_loop(handle, -1, !strcmp(word[1], "rotate") ? rotate : look, NULL) == 0);
    pcap_dump_close(other);
    pcap_dump_close(dumper);
    printf("%ld\n", due);
    return 0;
}
