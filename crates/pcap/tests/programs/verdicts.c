/* Gives verdicts in all ways of a program in line: verdicts CASE DEVICE PACKETS */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "burstline-pcap.h"
#include "handle.h"

/* One of six verdicts, in turn. */
static void decide(const struct pcap_pkthdr *header, const unsigned char *bytes) {
    unsigned char copy[65536];
    switch (seen++ % 6) {
    case 1: CHECK(burstline_pcap_verdict(handle, BURSTLINE_VERDICT_DROP) == 0); break;
    case 2: CHECK(burstline_pcap_verdict(handle, BURSTLINE_VERDICT_REJECT) == 0); break;
    case 3: CHECK(burstline_pcap_verdict(handle, BURSTLINE_VERDICT_PASS_FLOW) == 0); break;
    case 4:
        memcpy(copy, bytes, header->caplen);
        copy[0] = 0xfe;
        CHECK(burstline_pcap_replace(handle, copy, header->caplen) == 0);
        break;
    case 5: CHECK(burstline_pcap_verdict(handle, BURSTLINE_VERDICT_PASS) == 0); break;
    default: return; /* goes on without a verdict */
    }
    CHECK(burstline_pcap_verdict(handle, BURSTLINE_VERDICT_DROP) == -1);
    CHECK(strstr(pcap_geterr(handle), "takes only one"));
}

static void deciding(unsigned char *user, const struct pcap_pkthdr *header, const unsigned char *bytes) {
    (void)user;
    decide(header, bytes);
}

static void quiet(unsigned char *user, const struct pcap_pkthdr *header, const unsigned char *bytes) {
    (void)user, (void)header, (void)bytes;
    if (++seen == limit) pcap_breakloop(handle);
}

static void closing(unsigned char *user, const struct pcap_pkthdr *header, const unsigned char *bytes) {
    (void)user, (void)header, (void)bytes;
    if (++seen != limit) return;
    pcap_close(handle);
    CHECK(burstline_pcap_verdict(handle, BURSTLINE_VERDICT_PASS) == -1);
    CHECK(strstr(pcap_geterr(handle), "closed"));
}

/* Each packet but the last is decided after it was given, and before the next one is given. */
static void by_next(void) {
    struct pcap_pkthdr *header;
    const unsigned char *bytes;
    CHECK(burstline_pcap_verdict(handle, BURSTLINE_VERDICT_DROP) == -1);
    while (seen < limit) {
        int code = pcap_next_ex(handle, &header, &bytes);
        CHECK(code >= 0);
        if (code == 1) decide(header, bytes);
    }
    pcap_close(handle);
}

/* One packet each time the descriptor is readable, and none after the last. */
static void by_poll(void) {
    struct pcap_pkthdr *header;
    const unsigned char *bytes;
    CHECK(pcap_setnonblock(handle, 1, error) == 0);
    struct pollfd wanted = { .fd = pcap_get_selectable_fd(handle), .events = POLLIN };
    int code = 0;
    while (code >= 0) {
        CHECK(poll(&wanted, 1, 30000) == 1);
        code = pcap_next_ex(handle, &header, &bytes);
        if (code == 1) seen++;
    }
    CHECK(code == -2 && seen == limit);
}

static void misuse(unsigned char *user, const struct pcap_pkthdr *header, const unsigned char *bytes) {
    static const unsigned char much[65536];
    (void)user, (void)header, (void)bytes;
    static const int wrong[] = { 0, 3, 6, -1, 1 << 30 };
    for (unsigned k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        CHECK(burstline_pcap_verdict(handle, wrong[k]) == -1);
        CHECK(strstr(pcap_geterr(handle), "it must be"));
    }
    CHECK(burstline_pcap_replace(handle, much, 13) == -1);
    CHECK(burstline_pcap_replace(handle, much, sizeof much) == -1);
    CHECK(burstline_pcap_replace(handle, NULL, 60) == -1);
    CHECK(burstline_pcap_replace(handle, much, (size_t)-1) == -1);
    CHECK(burstline_pcap_verdict(handle, BURSTLINE_VERDICT_DROP) == 0); /* no verdict was given */
    seen++;
}

static void misused(const char *device) {
    char other[300];
    pcap_t *dead = pcap_open_dead(1, 100), *second;
    CHECK(!dead || burstline_pcap_verdict(dead, BURSTLINE_VERDICT_PASS) == -1);
    CHECK(burstline_pcap_verdict(NULL, BURSTLINE_VERDICT_PASS) == -1);
    CHECK(!pcap_open_live(device, 0, 1, 100, other) && strstr(other, "another reader gives verdicts"));
    second = handle;
    snprintf(other, sizeof other, "%.*s", (int)strcspn(device, "?"), device);
    CHECK((handle = pcap_open_live(other, 0, 1, 100, error)));
    CHECK(burstline_pcap_verdict(handle, BURSTLINE_VERDICT_PASS) == -1);
    CHECK(strstr(pcap_geterr(handle), "gives no verdicts"));
    pcap_close(handle);
    handle = second;
    CHECK(pcap_loop(handle, -1, misuse, NULL) == 0 && seen == limit);
}

int main(int words, char **word) {
    if (words != 4) return 2;
    CHECK((handle = pcap_open_live(word[2], 0, 1, 0, error)));
    limit = atol(word[3]);
    if (!strcmp(word[1], "decide")) CHECK(pcap_loop(handle, -1, deciding, NULL) == 0);
    if (!strcmp(word[1], "next")) by_next();
    if (!strcmp(word[1], "poll")) by_poll();
    if (!strcmp(word[1], "break")) CHECK(pcap_loop(handle, -1, quiet, NULL) == -2);
    if (!strcmp(word[1], "close")) CHECK(pcap_loop(handle, -1, closing, NULL) < 0);
    if (!strcmp(word[1], "misuse")) misused(word[2]);
    CHECK(seen == limit || !strcmp(word[1], "decide"));
    puts("fine");
    return 0; /* without pcap_close: the end of the process has the same effect */
}
