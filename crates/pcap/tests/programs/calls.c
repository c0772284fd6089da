/* Uses a libpcap handle in the ways of programs: calls CASE DEVICE PACKETS */
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "handle.h"

static long bytes_sum;

static void count(unsigned char *user, const struct pcap_pkthdr *header, const unsigned char *bytes) {
    (void)user;
    seen++;
    for (uint32_t at = 0; at < header->caplen; at++) bytes_sum += bytes[at];
}

static pcap_t *opened(const char *device) {
    handle = pcap_open_live(device, 0, 1, 100, error);
    CHECK(handle);
    return handle;
}

static void all_came(long packets) {
    struct pcap_stat stat;
    CHECK(seen == packets);
    CHECK(pcap_stats(handle, &stat) == 0);
    CHECK(stat.recv == packets && stat.drop == 0 && stat.ifdrop == 0);
    CHECK(bytes_sum > packets);
}

static void filter(const char *text) {
    struct bpf_program program;
    CHECK(pcap_compile(handle, &program, text, 1, 0xffffffff) == 0);
    CHECK(pcap_setfilter(handle, &program) == 0);
    pcap_freecode(&program);
}

static void by_next(const char *device, long packets) {
    struct pcap_pkthdr *header, first;
    const unsigned char *bytes;
    int code;
    opened(device);
    CHECK(pcap_datalink(handle) == 1 && pcap_snapshot(handle) == 262144);
    while (!(bytes = pcap_next(handle, &first))) {}
    count(NULL, &first, bytes);
    while ((code = pcap_next_ex(handle, &header, &bytes)) >= 0)
        if (code == 1) count(NULL, header, bytes);
    CHECK(code == -2);
    all_came(packets);
}

static void by_select(const char *device, long packets) {
    int code = 0;
    opened(device);
    CHECK(pcap_setnonblock(handle, 1, error) == 0);
    struct pollfd wanted = { .fd = pcap_get_selectable_fd(handle), .events = POLLIN };
    CHECK(wanted.fd >= 0);
    while (code >= 0) {
        CHECK(poll(&wanted, 1, 30000) == 1);
        CHECK((code = pcap_dispatch(handle, -1, count, NULL)) >= -2 && code != -1);
    }
    all_came(packets);
}

static void curious(unsigned char *user, const struct pcap_pkthdr *header, const unsigned char *bytes) {
    struct pcap_stat stat;
    count(user, header, bytes);
    CHECK(pcap_stats(handle, &stat) == 0);
    CHECK(pcap_dispatch(handle, 1, count, NULL) == -1); /* already reading */
    if (seen == 10) filter("arp");
    if (seen > 10) CHECK(bytes[12] == 8 && bytes[13] == 6);
    if (seen == limit) pcap_breakloop(handle);
}

static void in_callbacks(const char *device) {
    opened(device);
    limit = 100;
    CHECK(pcap_loop(handle, -1, curious, NULL) == -2);
    CHECK(seen == 100);
    filter("tcp port 1");
    CHECK(pcap_loop(handle, -1, count, NULL) == 0); /* to the end of the log */
    CHECK(seen == 100);
}

static void closing(unsigned char *user, const struct pcap_pkthdr *header, const unsigned char *bytes) {
    count(user, header, bytes);
    if (seen == 50) pcap_close(handle);
}

static void close_inside(const char *device) {
    opened(device);
    CHECK(pcap_loop(handle, -1, closing, NULL) < 0);
    CHECK(seen == 50);
    CHECK(pcap_loop(handle, -1, closing, NULL) == -1);
    CHECK(strstr(pcap_geterr(handle), "closed"));
}

static void *reader(void *unused) {
    while (pcap_dispatch(handle, 7, count, NULL) != -2) {}
    return unused;
}

static void by_threads(const char *device, long packets) {
    pthread_t threads[2];
    opened(device);
    for (int k = 0; k < 2; k++) CHECK(pthread_create(&threads[k], NULL, reader, NULL) == 0);
    for (int k = 0; k < 2; k++) CHECK(pthread_join(threads[k], NULL) == 0);
    CHECK(seen <= packets && seen > 0); /* two threads count without a lock */
}

/* 0 and values above a packet's length mean the whole packet; the length on the wire never changes. */
static void cut(const char *device) {
    static const int asked[] = { 0, -1, 1, 64, 65535, 1 << 30 };
    struct pcap_pkthdr *header;
    const unsigned char *bytes;
    for (unsigned k = 0; k < sizeof asked / sizeof *asked; k++) {
        CHECK((handle = pcap_create(device, error)));
        CHECK(pcap_set_snaplen(handle, asked[k]) == 0 && pcap_set_timeout(handle, 100) == 0);
        CHECK(pcap_activate(handle) == 0);
        CHECK(pcap_snapshot(handle) == (asked[k] > 0 && asked[k] < 262144 ? asked[k] : 262144));
        for (seen = 0; seen < 100; seen++) {
            CHECK(pcap_next_ex(handle, &header, &bytes) == 1 && header->len >= 60);
            uint32_t most = (uint32_t)pcap_snapshot(handle);
            CHECK(header->caplen == (header->len < most ? header->len : most));
        }
        if (k + 1 < sizeof asked / sizeof *asked) pcap_close(handle);
    }
}

static void *filtering(void *unused) {
    static const char *const texts[] = { "arp", "udp port 53", "", "tcp", "len > 0" };
    for (int k = 0; k < 500; k++) filter(texts[k % 5]);
    return unused;
}

/* The handle counts each packet once, unless a filter rejects it. */
static void filter_under_load(const char *device, long packets) {
    pthread_t thread;
    struct pcap_stat stat;
    opened(device);
    CHECK(pthread_create(&thread, NULL, filtering, NULL) == 0);
    CHECK(pcap_loop(handle, -1, count, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pcap_stats(handle, &stat) == 0);
    CHECK(stat.recv == seen && seen <= packets && stat.drop == 0);
}

static void forking(unsigned char *user, const struct pcap_pkthdr *header, const unsigned char *bytes) {
    int code = 1;
    count(user, header, bytes);
    if (seen % 5000 != 0) return;
    struct pcap_stat stat;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(pcap_stats(handle, &stat) == 0 && bytes[0] == bytes[0] ? 0 : 2);
    CHECK(waitpid(child, &code, 0) == child && code == 0);
}

static void by_forks(const char *device, long packets) {
    opened(device);
    CHECK(pcap_loop(handle, -1, forking, NULL) == 0);
    all_came(packets);
}

/* A child reads from its parent's handle, and selects on its descriptor, as after daemon(3). The
 * parent's handle is not affected. */
static void by_child(const char *device, long packets, int is_selected) {
    int code = 1;
    opened(device);
    const int descriptor = is_selected ? pcap_get_selectable_fd(handle) : -1;
    CHECK(!is_selected || descriptor >= 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct pcap_pkthdr *header;
        const unsigned char *bytes;
        struct pollfd ready = { descriptor, POLLIN, 0 };
        alarm(60);
        while (seen < packets) {
            if (is_selected) CHECK(poll(&ready, 1, -1) == 1);
            const int got = pcap_next_ex(handle, &header, &bytes);
            CHECK(got == 0 || got == 1);
            if (got) count(NULL, header, bytes);
        }
        CHECK(!is_selected || pcap_get_selectable_fd(handle) == descriptor);
        pcap_close(handle);
        _exit(0);
    }
    CHECK(waitpid(child, &code, 0) == child && code == 0);
    CHECK(pcap_loop(handle, -1, count, NULL) == 0);
    all_came(packets);
}

/* A child that continues in its parent's loop gets an error, and can read after that. */
static void descending(unsigned char *user, const struct pcap_pkthdr *header, const unsigned char *bytes) {
    count(user, header, bytes);
    if (seen == 10) *(pid_t *)user = fork();
}

static void by_descent(const char *device, long packets) {
    int code = 1;
    pid_t child = -1;
    opened(device);
    const int ended = pcap_loop(handle, -1, descending, (unsigned char *)&child);
    if (child == 0) {
        CHECK(ended == -1 && strstr(pcap_geterr(handle), "child of fork(2)"));
        seen = 0;
        CHECK(pcap_loop(handle, 100, count, NULL) == 0 && seen == 100);
        _exit(0);
    }
    CHECK(ended == 0 && waitpid(child, &code, 0) == child && code == 0);
    all_came(packets);
}

/* The list has the published name among the interfaces, and that name can be opened. */
static void by_list(void) {
    struct pcap_if *all, *tap = NULL;
    CHECK(pcap_findalldevs(&all, error) == 0);
    for (struct pcap_if *each = all; each; each = each->next, seen++)
        if (!strcmp(each->name, "burst:tap")) tap = each;
    CHECK(tap && strstr(tap->description, "1 log published by process") && !tap->addresses);
    CHECK(tap->flags == (2 | 4 | 0x30)); /* up, running, connection status not applicable */
    opened(tap->name);
    pcap_freealldevs(all);
}

/* Reads no more packets until the writer has overwritten them, and announced that by a line. */
static void lapped(unsigned char *user, const struct pcap_pkthdr *header, const unsigned char *bytes) {
    count(user, header, bytes);
    if (seen > 1) return;
    puts("reading");
    CHECK(fflush(stdout) == 0 && getchar() == '\n');
}

static void with_losses(const char *device, long packets) {
    struct pcap_stat stat;
    opened(device);
    CHECK(pcap_loop(handle, -1, lapped, NULL) == 0);
    CHECK(pcap_stats(handle, &stat) == 0);
    CHECK(stat.recv == packets && stat.ifdrop == 0);
    CHECK(stat.drop > 0 && stat.drop == packets - seen);
}

static void misuse(const char *device) {
    struct pcap_stat stat;
    int *links;
    pcap_t *last = NULL;
    CHECK(!pcap_create("burst:", error) && strstr(error, "missing"));
    CHECK(!pcap_create("burst:tap?fast", error) && strstr(error, "unknown option"));
    CHECK(!pcap_open_live("burst:nobody", 0, 0, 1, error) && strstr(error, "published as nobody"));
    CHECK((handle = pcap_create(device, error)));
    CHECK(pcap_datalink(handle) == -3 && pcap_stats(handle, &stat) == -3);
    CHECK(pcap_dispatch(handle, 1, count, NULL) == -3 && pcap_get_selectable_fd(handle) == -1);
    CHECK(pcap_set_snaplen(handle, 1 << 30) == 0 && pcap_set_timeout(handle, 1) == 0);
    CHECK(pcap_activate(handle) == 0 && pcap_activate(handle) == -4);
    CHECK(pcap_set_snaplen(handle, 5) == -4 && pcap_snapshot(handle) == 262144);
    CHECK(pcap_inject(handle, "x", 1) == -1 && strstr(pcap_geterr(handle), "only its publisher"));
    CHECK(pcap_setfilter(handle, NULL) == -1);
    struct bpf_program endless = { 1 << 30, "" };
    CHECK(pcap_setfilter(handle, &endless) == -1);
    CHECK(pcap_list_datalinks(handle, &links) == 1 && links[0] == 1);
    pcap_free_datalinks(links);
    CHECK(pcap_list_tstamp_types(handle, &links) == 0 && !links);
    struct bpf_program none;
    CHECK(pcap_compile(handle, &none, "no such filter", 1, 0) == -1 && *pcap_geterr(handle));
    CHECK(pcap_inject(handle, "x", 1) == -1);
    pcap_perror(handle, "inject");
    CHECK(pcap_set_datalink(handle, 1) == 0 && pcap_set_datalink(handle, 12) == -1);
    pcap_close(handle);
    pcap_close(handle);
    CHECK(pcap_stats(handle, &stat) == -1 && pcap_activate(handle) == -1);
    CHECK(pcap_setnonblock(handle, 1, error) == -1 && strstr(error, "closed"));
    for (int k = 0; k < 256; k++) CHECK((last = pcap_create(device, error)));
    CHECK(!pcap_create(device, error) && strstr(error, "256"));
    pcap_close(last);
    CHECK((last = pcap_create(device, error)));
}

int main(int words, char **word) {
    if (words != 4) return 2;
    long packets = atol(word[3]);
    if (!strcmp(word[1], "loop")) {
        opened(word[2]);
        CHECK(pcap_loop(handle, -1, count, NULL) == 0);
        all_came(packets);
    }
    if (!strcmp(word[1], "next")) by_next(word[2], packets);
    if (!strcmp(word[1], "select")) by_select(word[2], packets);
    if (!strcmp(word[1], "callback")) in_callbacks(word[2]);
    if (!strcmp(word[1], "close")) close_inside(word[2]);
    if (!strcmp(word[1], "threads")) by_threads(word[2], packets);
    if (!strcmp(word[1], "snaplen")) cut(word[2]);
    if (!strcmp(word[1], "filters")) filter_under_load(word[2], packets);
    if (!strcmp(word[1], "child")) by_child(word[2], packets, 0);
    if (!strcmp(word[1], "select-child")) by_child(word[2], packets, 1);
    if (!strcmp(word[1], "descent")) by_descent(word[2], packets);
    if (!strcmp(word[1], "fork")) by_forks(word[2], packets);
    if (!strcmp(word[1], "list")) by_list();
    if (!strcmp(word[1], "lapped")) with_losses(word[2], packets);
    if (!strcmp(word[1], "misuse")) misuse(word[2]);
    puts("fine");
    return 0;
}
