/* SPDX-License-Identifier: GPL-2.0-only
 *
 * See host.h. */
#include "host.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void usage(void) {
    fprintf(stderr, "usage: FOLDER INPUT passive|inline RULE [host:WORD...] [VARIABLE...]\n");
    exit(2);
}

static void read_rule(struct host *host, const char *text) {
    static const struct {
        const char *word;
        unsigned verdict;
    } words[] = {{"pass", 0}, {"block", 1}, {"replace", 2}, {"trust", 3}, {"blacklist", 4},
                 {"nonsense", 99}};
    const size_t length = strcspn(text, ":");
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i].word) == length && strncmp(text, words[i].word, length) == 0) {
            host->verdict = words[i].verdict;
            host->port = text[length] == ':' ? (unsigned)atoi(text + length + 1) : 0;
            return;
        }
    }
    usage();
}

void host_read(struct host *host, int count, char **words) {
    memset(host, 0, sizeof *host);
    if (count < 5)
        usage();
    host->folder = words[1];
    host->input = words[2];
    host->is_inline = strcmp(words[3], "inline") == 0;
    host->instance = host->instances = 1;
    read_rule(host, words[4]);
    for (int i = 5; i < count; i++) {
        if (strcmp(words[i], "host:reverse") == 0) {
            host->is_reversed = true;
        } else if (strcmp(words[i], "host:twice") == 0) {
            host->is_twice = true;
        } else if (strcmp(words[i], "host:leave") == 0) {
            host->is_leaving = true;
        } else if (strncmp(words[i], "host:filter=", 12) == 0) {
            host->filter = words[i] + 12;
            for (char *comma = host->filter; (comma = strchr(comma, ',')) != NULL;)
                *comma = ' ';
        } else if (strncmp(words[i], "host:", 5) == 0) {
            if (sscanf(words[i], "host:%uof%u", &host->instance, &host->instances) != 2)
                usage();
        } else if (host->variables_count < HOST_VARIABLES) {
            char *value = strchr(words[i], '=');
            if (value != NULL)
                *value++ = '\0';
            host->variables[host->variables_count].key = words[i];
            host->variables[host->variables_count++].value = value;
        }
    }
}

/* IPv4 without options, UDP, to this port. */
static bool is_udp_to(const uint8_t *bytes, uint32_t length, unsigned port) {
    return length >= 42 && bytes[12] == 8 && bytes[13] == 0 && bytes[14] == 0x45 &&
           bytes[23] == 17 && (unsigned)(bytes[36] << 8 | bytes[37]) == port;
}

unsigned host_decide(struct host *host, const uint8_t *bytes, uint32_t length, uint64_t time_us) {
    host->packets++;
    host->bytes += length;
    host->is_backwards |= time_us < host->last_time_us;
    host->last_time_us = time_us;
    if (host->port > 0 && !is_udp_to(bytes, length, host->port))
        return 0;
    host->matches++;
    if (host->verdict == 2) /* as Snort does: the packet is the host's to change in place */
        memcpy((uint8_t *)(uintptr_t)bytes + length - 4, "DAQ!", 4);
    return host->verdict;
}

void host_catch(void (*stop)(int)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = stop;
    sigaction(SIGTERM, &action, NULL);
}

void host_print(const struct host *host, uint64_t received, uint64_t dropped, uint64_t taken,
                uint64_t filtered, const uint64_t *verdicts, unsigned verdicts_count, const char *end) {
    printf("packets %" PRIu64 "\nbytes %" PRIu64 "\nmatches %" PRIu64 "\nrefused %" PRIu64
           "\nbackwards %d\n",
           host->packets, host->bytes, host->matches, host->refused, host->is_backwards);
    printf("hw_received %" PRIu64 "\nhw_dropped %" PRIu64 "\nreceived %" PRIu64
           "\nfiltered %" PRIu64 "\n",
           received, dropped, taken, filtered);
    for (unsigned i = 0; i < verdicts_count; i++)
        printf("verdict_%u %" PRIu64 "\n", i, verdicts[i]);
    printf("end %s\n", end);
    fflush(stdout);
}
