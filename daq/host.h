/* SPDX-License-Identifier: GPL-2.0-only
 *
 * What both test hosts have in common: their words, what they decide about a packet, what they
 * print.
 *
 *     host2|host3 FOLDER INPUT passive|inline RULE [host:WORD...] [VARIABLE[=VALUE]...]
 *
 * They load the module burst of a folder, read the input until its end or SIGTERM, and print lines
 * `NAME NUMBER`, and `end HOW`. The verdicts of LibDAQ 2 and 3 have the same numbers. */
#ifndef BURST_HOST_H
#define BURST_HOST_H

#include <stdbool.h>
#include <stdint.h>

#define HOST_VERDICTS 8
#define HOST_VARIABLES 8

struct host {
    const char *folder;
    const char *input;
    bool is_inline;
    /* RULE: pass, nonsense (a verdict that does not exist), or VERDICT:PORT for UDP packets to a
     * port, where VERDICT is block, replace, trust or blacklist; the others pass. */
    unsigned verdict;
    unsigned port;
    /* host:WORD. */
    bool is_reversed;  /* finalizes the messages of a receive from the last to the first */
    bool is_twice;     /* finalizes each twice */
    bool is_leaving;   /* stops with messages that are not finalized, and finalizes them then */
    unsigned instance; /* host:KofN: it is instance K, from 1, of N that run side by side */
    unsigned instances;
    char *filter;      /* host:filter=udp,port,5002: an expression, with commas for blanks */
    /* The module's. */
    struct host_variable {
        const char *key;
        const char *value;
    } variables[HOST_VARIABLES];
    unsigned variables_count;
    /* What it saw. */
    uint64_t packets, bytes, matches, refused;
    uint64_t last_time_us;
    bool is_backwards; /* some packet's time is before that of the one before */
};

/* Reads the command line; exits where it is wrong. */
void host_read(struct host *host, int count, char **words);
/* The verdict on a packet. A packet to be replaced is changed in place: its last 4 bytes. */
unsigned host_decide(struct host *host, const uint8_t *bytes, uint32_t length, uint64_t time_us);
/* Calls `stop` at SIGTERM. */
void host_catch(void (*stop)(int));
/* Prints what was seen, and what the module counted. */
void host_print(const struct host *host, uint64_t received, uint64_t dropped, uint64_t taken,
                uint64_t filtered, const uint64_t *verdicts, unsigned verdicts_count, const char *end);

#endif
