/* SPDX-License-Identifier: GPL-2.0-only
 *
 * See burst_core.h. Invariants:
 * - B1: a slot of `held` is used while its burst is held: some packet of it is not taken, or is
 *   taken and not decided.
 * - B2: packets are taken from the burst `current` alone, so each log's come in order.
 * - B3: a packet of an earlier start is not looked up in `held`. */
#include "burst_core.h"

#include "burst_filter.h"

#include <burstline.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Bursts that may be held of each reader. */
#define WINDOW 8
#define HELD_MAX (WINDOW * BURST_LOGS_MAX)
/* A signal or another thread is heeded within this time. */
#define SLICE_NS 50000000u
/* Of several readers one is slept at for this long: a verdict has 2 ms by default. */
#define TURN_NS 200000u
/* A replacement without room is tried again every 100 us, for 10 ms. */
#define ROOM_TRIES 100
#define ROOM_WAIT_NS 100000

struct held {
    struct burstline_burst burst;
    struct burstline_reader *reader;
    uint32_t next; /* the packet that is taken next */
    uint32_t open; /* taken, and not decided */
    bool is_used;
};

struct burst_core {
    struct burst_settings settings;
    struct burstline_reader *readers[BURST_LOGS_MAX];
    bool has_ended[BURST_LOGS_MAX];
    unsigned readers_count;
    unsigned turn;
    struct held held[HELD_MAX];
    struct held *current;
    uint64_t starts;
    atomic_bool is_interrupted;
    int datalink;
    char *filter_text; /* NULL: all is wanted */
    struct burst_filter *filter;
    struct burst_counts counts; /* since the last reset */
    uint64_t offered_before;    /* what the readers said at the last reset */
    uint64_t missed_before;
    char error[BURST_ERROR_BYTES];
};

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct burst_core *burst_new(const struct burst_settings *settings) {
    struct burst_core *core = calloc(1, sizeof *core);
    if (core != NULL) {
        core->settings = *settings;
        core->datalink = 1;
    }
    return core;
}

void burst_free(struct burst_core *core) {
    burst_stop(core);
    burst_filter_free(core->filter);
    free(core->filter_text);
    free(core);
}

static bool fail(struct burst_core *core, const struct burstline_reader *reader) {
    snprintf(core->error, sizeof core->error, "%s", burstline_error_text(reader));
    return false;
}

static void learn_datalink(struct burst_core *core) {
    struct burstline_port port;
    const uint32_t log = core->settings.logs_count > 0 ? core->settings.logs[0] : 0;
    for (uint32_t number = 0; number < 256; number++) {
        if (burstline_port_name(core->readers[0], log, number, &port) == BURSTLINE_STATUS_OK) {
            /* Source: pcap-linktype(7): LINKTYPE_RAW is 101, DLT_RAW is 12. */
            core->datalink = port.link_type == 101 ? 12 : (int)port.link_type;
            return;
        }
    }
}

/* The filter for what the log's packets begin with. */
static bool compile_filter(struct burst_core *core, const char *text) {
    struct burst_filter *filter = burst_filter_new(text, core->datalink, core->error);
    if (filter == NULL)
        return false;
    burst_filter_free(core->filter);
    core->filter = filter;
    return true;
}

bool burst_set_filter(struct burst_core *core, const char *text) {
    char *copy = NULL;
    if (text != NULL && *text != '\0') {
        copy = strdup(text);
        if (copy == NULL || !compile_filter(core, copy)) {
            free(copy);
            return false;
        }
    } else {
        burst_filter_free(core->filter);
        core->filter = NULL;
    }
    free(core->filter_text);
    core->filter_text = copy;
    return true;
}

bool burst_start(struct burst_core *core) {
    const struct burst_settings *settings = &core->settings;
    struct burstline_options options = BURSTLINE_OPTIONS_INIT;
    options.window = WINDOW;
    options.policy = settings->is_lossless ? BURSTLINE_LOSSLESS : BURSTLINE_LOSSY;
    options.start = settings->is_from_oldest ? BURSTLINE_FROM_OLDEST : BURSTLINE_FROM_NOW;
    options.trust = settings->trust;
    options.restarts = settings->is_once ? BURSTLINE_NO_FOLLOW : BURSTLINE_FOLLOW;
    options.verdicts = settings->is_inline ? BURSTLINE_VERDICTS : 0;
    const unsigned readers = settings->logs_count > 0 ? settings->logs_count : 1;
    memset(&core->counts, 0, sizeof core->counts);
    core->offered_before = core->missed_before = 0;
    while (core->readers_count < readers) {
        if (settings->logs_count > 0)
            options.log = settings->logs[core->readers_count];
        struct burstline_reader *reader;
        if (burstline_open(settings->name, &options, &reader) != BURSTLINE_STATUS_OK) {
            fail(core, NULL);
            burst_stop(core);
            return false;
        }
        core->has_ended[core->readers_count] = false;
        core->readers[core->readers_count++] = reader;
    }
    learn_datalink(core);
    /* It was set before anybody knew what packets begin with. */
    if (core->filter_text != NULL && !compile_filter(core, core->filter_text)) {
        burst_stop(core);
        return false;
    }
    return true;
}

/* Asks the readers what the log says. One that another thread is in keeps what it said before. */
static void look_at_accounts(struct burst_core *core) {
    uint64_t offered = 0, missed = 0;
    for (unsigned i = 0; i < core->readers_count; i++) {
        struct burstline_statistics seen;
        seen.size = sizeof seen;
        if (burstline_account(core->readers[i], &seen) != BURSTLINE_STATUS_OK)
            return;
        offered += seen.offered;
        missed += seen.missed;
    }
    if (core->readers_count > 0) {
        core->counts.offered = offered - core->offered_before;
        core->counts.missed = missed - core->missed_before;
    }
}

void burst_stop(struct burst_core *core) {
    look_at_accounts(core);
    for (unsigned i = 0; i < core->readers_count; i++)
        burstline_close(core->readers[i]);
    core->readers_count = 0;
    memset(core->held, 0, sizeof core->held);
    core->current = NULL;
    core->starts++;
}

/* Looks for the next burst of one reader. */
static enum burst_taken next_burst(struct burst_core *core, unsigned index, uint64_t timeout_ns) {
    struct burstline_reader *reader = core->readers[index];
    struct held *held = core->held;
    while (held < core->held + HELD_MAX && held->is_used)
        held++;
    if (held == core->held + HELD_MAX)
        return BURST_NO_ROOM;
    switch (burstline_next(reader, timeout_ns, &held->burst)) {
    case BURSTLINE_STATUS_OK:
        held->reader = reader;
        held->next = held->open = 0;
        held->is_used = true;
        core->current = held;
        return BURST_TAKEN;
    case BURSTLINE_STATUS_END:
        core->has_ended[index] = true;
        return BURST_NONE;
    case BURSTLINE_STATUS_ERROR_WINDOW:
        return BURST_NO_ROOM;
    default:
        return BURST_NONE;
    case BURSTLINE_STATUS_ERROR_ARGUMENT:
    case BURSTLINE_STATUS_ERROR_CLOSED:
    case BURSTLINE_STATUS_ERROR_BUSY:
    case BURSTLINE_STATUS_ERROR_REFUSED:
    case BURSTLINE_STATUS_ERROR_SYSTEM:
    case BURSTLINE_STATUS_ERROR_PANIC:
        fail(core, reader);
        return BURST_FAILED;
    }
}

/* Looks at each reader once; at one it waits. */
static enum burst_taken look(struct burst_core *core, uint64_t timeout_ns) {
    unsigned ended = 0, left = 0;
    bool has_no_room = false;
    for (unsigned i = 0; i < core->readers_count; i++)
        left += !core->has_ended[i];
    for (unsigned i = 0; i < core->readers_count; i++) {
        const unsigned index = core->turn++ % core->readers_count;
        if (core->has_ended[index]) {
            ended++;
            continue;
        }
        const bool is_last = --left == 0;
        const uint64_t wait_ns = is_last && !has_no_room ? timeout_ns : 0;
        const enum burst_taken taken = next_burst(core, index, wait_ns);
        if (taken == BURST_TAKEN || taken == BURST_FAILED)
            return taken;
        has_no_room |= taken == BURST_NO_ROOM;
        ended += core->has_ended[index];
    }
    if (ended == core->readers_count)
        return BURST_OVER;
    return has_no_room ? BURST_NO_ROOM : BURST_NONE;
}

/* Inline, hosts change packets in place: they get a copy. */
static bool copy_into_room(struct burst_core *core, struct burst_packet *packet,
                           const uint8_t *bytes) {
    if (packet->room_bytes < packet->whole_length || packet->room == NULL) {
        const uint32_t wanted = packet->whole_length < 2048 ? 2048 : packet->whole_length;
        uint8_t *room = realloc(packet->room, wanted);
        if (room == NULL) {
            snprintf(core->error, sizeof core->error, "no memory for a packet of %u bytes",
                     packet->whole_length);
            return false;
        }
        packet->room = room;
        packet->room_bytes = wanted;
    }
    memcpy(packet->room, bytes, packet->whole_length);
    packet->bytes = packet->room;
    return true;
}

/* Whether the host is to see the next packet of a burst. */
static bool is_wanted(const struct burst_core *core, const struct held *held) {
    if (core->filter == NULL)
        return true;
    const uint32_t index = held->next;
    return burst_filter_wants(core->filter, burstline_packet(&held->burst, index),
                              burstline_packet_length(&held->burst, index),
                              burstline_packet_facts(&held->burst, index).original_length);
}

/* Takes the next packet of a burst as its own, so that it can be decided. */
static void step(struct burst_core *core, struct held *held, struct burst_packet *packet) {
    packet->index = held->next;
    packet->held = (uint32_t)(held - core->held);
    packet->start = core->starts;
    held->open++;
    if (++held->next == held->burst.count)
        core->current = NULL;
}

/* The host does not see the next packet of a burst; in line it passes. */
static void pass_over(struct burst_core *core, struct held *held) {
    struct burst_packet packet;
    memset(&packet, 0, sizeof packet);
    step(core, held, &packet);
    core->counts.filtered++;
    burst_decide(core, &packet, BURST_PASS);
}

static bool take_of(struct burst_core *core, struct held *held, struct burst_packet *packet) {
    const struct burstline_burst *burst = &held->burst;
    const uint32_t index = held->next;
    const struct burstline_facts facts = burstline_packet_facts(burst, index);
    const uint8_t *bytes = burstline_packet(burst, index);
    packet->whole_length = burstline_packet_length(burst, index);
    if (!core->settings.is_inline)
        packet->bytes = (uint8_t *)(uintptr_t)bytes; /* hosts take it for const */
    else if (!copy_into_room(core, packet, bytes))
        return false;
    const uint32_t most = core->settings.snaplen;
    packet->length = most > 0 && packet->whole_length > most ? most : packet->whole_length;
    packet->wire_length = facts.original_length;
    packet->time_ns = facts.time_ns;
    packet->port = burstline_desc_port(burstline_desc_at(burst, index));
    step(core, held, packet);
    core->counts.taken++;
    return true;
}

enum burst_taken burst_take(struct burst_core *core, bool may_wait, struct burst_packet *packet) {
    uint64_t began_ns = 0; /* when it had no packet first */
    const uint64_t most_ns = (uint64_t)core->settings.timeout_ms * 1000000u;
    bool is_last = !may_wait, has_looked = false;
    for (;;) {
        if (atomic_load_explicit(&core->is_interrupted, memory_order_relaxed)) {
            atomic_store_explicit(&core->is_interrupted, false, memory_order_relaxed);
            return BURST_INTERRUPTED;
        }
        while (core->current != NULL && !is_wanted(core, core->current))
            pass_over(core, core->current);
        if (core->current != NULL)
            return take_of(core, core->current, packet) ? BURST_TAKEN : BURST_FAILED;
        if (has_looked && is_last)
            return BURST_NONE; /* what came was not wanted */
        uint64_t wait_ns = core->readers_count > 1 ? TURN_NS : SLICE_NS;
        if (may_wait && most_ns > 0) {
            if (began_ns == 0)
                began_ns = now_ns();
            const uint64_t spent_ns = now_ns() - began_ns;
            is_last = spent_ns >= most_ns;
            if (!is_last && most_ns - spent_ns < wait_ns)
                wait_ns = most_ns - spent_ns;
        }
        const enum burst_taken taken = look(core, is_last ? 0 : wait_ns);
        has_looked = true;
        if (taken != BURST_TAKEN && (taken != BURST_NONE || is_last))
            return taken;
    }
}

/* false: there was no room for it. */
static bool replace(struct held *held, const struct burst_packet *packet) {
    const struct timespec pause = {0, ROOM_WAIT_NS};
    for (unsigned tries = 0; tries < ROOM_TRIES; tries++) {
        const burstline_status status = burstline_replace(
            held->reader, &held->burst, packet->index, packet->room, packet->whole_length);
        if (status != BURSTLINE_STATUS_NONE)
            return status == BURSTLINE_STATUS_OK;
        nanosleep(&pause, NULL);
    }
    return false;
}

static void give(struct held *held, const struct burst_packet *packet,
                 enum burst_decision decision) {
    static const uint32_t verdicts[] = {
        [BURST_PASS] = BURSTLINE_VERDICT_PASS,
        [BURST_DROP] = BURSTLINE_VERDICT_DROP,
        [BURST_PASS_FLOW] = BURSTLINE_VERDICT_PASS_FLOW,
        [BURST_REJECT] = BURSTLINE_VERDICT_REJECT,
    };
    if (decision == BURST_REPLACE) {
        if (replace(held, packet))
            return;
        /* No room, or too long: what the host wanted changed must not go on as it was. */
        decision = BURST_DROP;
    }
    burstline_verdict(held->reader, &held->burst, packet->index, 1, verdicts[decision]);
}

void burst_decide(struct burst_core *core, struct burst_packet *packet,
                  enum burst_decision decision) {
    packet->bytes = NULL;
    packet->length = 0;
    if (packet->start != core->starts)
        return; /* B3 */
    struct held *held = &core->held[packet->held];
    if (core->settings.is_inline)
        give(held, packet, decision);
    if (--held->open == 0 && held->next == held->burst.count) {
        burstline_release(held->reader, &held->burst);
        held->is_used = false;
    }
}

void burst_forget(struct burst_packet *packet) {
    free(packet->room);
    memset(packet, 0, sizeof *packet);
}

void burst_interrupt(struct burst_core *core) {
    atomic_store_explicit(&core->is_interrupted, true, memory_order_relaxed);
}

struct burst_counts burst_count(struct burst_core *core) {
    look_at_accounts(core);
    struct burst_counts counts = core->counts;
    const uint64_t seen = counts.taken + counts.filtered + counts.missed;
    counts.waiting = counts.offered > seen ? counts.offered - seen : 0;
    return counts;
}

void burst_reset(struct burst_core *core) {
    /* What waits and what is not decided stays so. */
    const struct burst_counts before = burst_count(core);
    core->offered_before += before.offered - before.waiting;
    core->missed_before += before.missed;
    memset(&core->counts, 0, sizeof core->counts);
    core->counts.offered = before.waiting;
}

int burst_datalink(struct burst_core *core) { return core->datalink; }

const struct burst_settings *burst_settings_of(const struct burst_core *core) {
    return &core->settings;
}

char *burst_error(struct burst_core *core) { return core->error; }
