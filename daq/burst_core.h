/* SPDX-License-Identifier: GPL-2.0-only
 *
 * What both DAQ modules have in common: packets of a published log, one at a time, and what becomes
 * of each.
 *
 *     log NAME ---> burstline_next() ---> burst, held ---> burst_take() ---> the host looks at it
 *      ^                                    |                                    |
 *      '--- burstline_verdict(), _replace() <-------- burst_decide() <-----------'
 *
 * Who owns what when: a burst is held from its first packet's take to its last packet's decision.
 * Passive, a packet's bytes are the burst's. Inline, they are a copy in the packet's own room,
 * which the host may change. A packet that was taken has to be decided, in any order. After
 * burst_stop() its decision changes nothing, and its bytes are gone where they were the burst's.
 *
 * One thread takes, decides, starts and stops. burst_interrupt() may be called by any, and by a
 * handler of signals.
 */
#ifndef BURST_CORE_H
#define BURST_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Logs that one instance reads: those of both directions of a bounce, and as many again. */
#define BURST_LOGS_MAX 4
/* Longer names of logs are refused. */
#define BURST_NAME_BYTES 256
#define BURST_ERROR_BYTES 256

/* What an instance is to do. */
struct burst_settings {
    /* NAME: all its logs; NAME@K: log K; NAME@K+L: logs K and L, for both ways of a worker. */
    char name[BURST_NAME_BYTES];
    uint32_t logs[BURST_LOGS_MAX]; /* none: all, by one reader */
    unsigned logs_count;
    bool is_inline;       /* packets wait for verdicts */
    bool is_lossless;     /* the publisher waits, where it allows that */
    bool is_from_oldest;  /* not with the next packet, but with the oldest there is */
    bool is_once;         /* ends with its publisher, however that ends */
    bool is_rejecting;    /* what is blacklisted gets an answer */
    bool is_both;         /* see burst_settings_share() */
    uint32_t trust;       /* BURSTLINE_TRUST_* */
    uint32_t snaplen;     /* bytes of a packet that the host sees, at most; 0: all */
    uint32_t timeout_ms;  /* how long a take waits; 0: without end */
};

/* How a take went. */
enum burst_taken {
    BURST_TAKEN,
    BURST_NONE,        /* nothing within the timeout */
    BURST_INTERRUPTED,
    BURST_OVER,        /* the log is over, and read to its end */
    BURST_NO_ROOM,     /* too many bursts have packets that are not decided */
    BURST_FAILED       /* burst_error() says why */
};

/* What becomes of a packet. */
enum burst_decision { BURST_PASS, BURST_DROP, BURST_REPLACE, BURST_PASS_FLOW, BURST_REJECT };

/* A packet that was taken. All zeros before its first take; see burst_forget(). */
struct burst_packet {
    uint8_t *bytes;
    uint32_t length;      /* of bytes, at most the snaplen */
    uint32_t wire_length;
    uint32_t port;
    uint64_t time_ns;     /* since 1970 */
    /* The core's. */
    uint8_t *room;
    uint32_t room_bytes;
    uint32_t whole_length; /* in the log: replacements are as long */
    uint32_t index;
    uint32_t held;
    uint64_t start;
};

/* offered = taken + filtered + missed + waiting. */
struct burst_counts {
    uint64_t offered;  /* by the log's own count, since the start */
    uint64_t missed;   /* overwritten before they were read */
    uint64_t taken;    /* given to the host */
    uint64_t filtered; /* the host's filter did not want them: in line they passed */
    uint64_t waiting;  /* published, and not taken yet */
};

struct burst_core;

/* An instance that is not started. NULL: there is no memory for it. */
struct burst_core *burst_new(const struct burst_settings *settings);
void burst_free(struct burst_core *core);

/* What one wants most of the time. */
void burst_settings_init(struct burst_settings *settings);
/* Reads the name of the input. false: error says what is wrong, in BURST_ERROR_BYTES. */
bool burst_settings_name(struct burst_settings *settings, const char *text, char *error);
/* Reads a variable of the host's; value may be NULL. false: error says what is wrong. */
bool burst_settings_variable(struct burst_settings *settings, const char *key, const char *value,
                             char *error);
/* Instance `index`, from 0, of `count` that a host runs side by side has log `index` where the name
 * says none; with the variable both also log `count + index`, which has the way back. */
void burst_settings_share(struct burst_settings *settings, unsigned index, unsigned count);
/* The variables, for hosts that list them. */
struct burst_variable {
    const char *name;
    const char *description;
    bool has_value;
    size_t flag; /* without a value: where its flag is in the settings */
};
extern const struct burst_variable burst_variables[];
extern const unsigned burst_variables_count;

/* From now on the host gets only what a filter of pcap-filter(7) wants; all, if it is empty. false:
 * burst_error() says why, and the filter before it stays. */
bool burst_set_filter(struct burst_core *core, const char *text);

/* Takes its seats at the logs. Once, or again after burst_stop(). */
bool burst_start(struct burst_core *core);
/* Leaves them. What was taken and not decided is left to the publisher's deadline. */
void burst_stop(struct burst_core *core);

/* The next packet. Where may_wait is false, it only looks. */
enum burst_taken burst_take(struct burst_core *core, bool may_wait, struct burst_packet *packet);
void burst_decide(struct burst_core *core, struct burst_packet *packet,
                  enum burst_decision decision);
/* Frees a packet's room. */
void burst_forget(struct burst_packet *packet);

/* Ends the take that waits, or the next one. */
void burst_interrupt(struct burst_core *core);

struct burst_counts burst_count(struct burst_core *core);
/* Counts from 0 again. */
void burst_reset(struct burst_core *core);
/* What packets start with. Source: DLT_ values of libpcap, 1 is Ethernet. */
int burst_datalink(struct burst_core *core);
const struct burst_settings *burst_settings_of(const struct burst_core *core);
/* What went wrong last, "" if nothing did. BURST_ERROR_BYTES, which a host may write to. */
char *burst_error(struct burst_core *core);

#endif
