/*
 * Four ports into one shared memory, by the stages of the article.
 *
 *   receive   a port: alloc bulk of 32 -> describe -> stamp the burst -> a ring for each port
 *   merge     the oldest of the bursts at the heads of the rings -> one ring
 *   copy      rte_memcpy into shared memory, back to back, with a worklist; free bulk of 32
 *   read      the worklist: each entry is counted for its port
 *
 * Receiving has one core, the other stages have the other one. Packets are in the mbufs before it
 * begins, as if a card had written them: neither side pays for that.
 * A variant merges packet by packet, in order of their times, which the article's design does not.
 *
 * Live, devices deliver what they have instead of 32 packets. All stages take turns on one core.
 * Each turn takes a burst of each port, then merges and copies all that was received. The merge
 * does not wait for a port that has nothing, because each was polled in the same turn. */
#include "rivals.h"

#include <stdlib.h>
#include <string.h>

#include <rte_byteorder.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf_dyn.h>
#include <rte_memcpy.h>

/* crates/lab/src/lines.rs */
#define LINES 4

/* Live frames: crates/testbed/src/frames.rs, and DEALT_FRAMES of injector.rs. */
#define NUMBER_AT 14
#define DEALT 256

/* An entry of the worklist beside the packets. */
struct entry {
    uint32_t offset;
    uint32_t shape;
    uint64_t time_ns;
};

struct head {
    struct rte_mbuf *mbufs[BURST];
    uint64_t time_ns; /* of the next */
    uint32_t next;
    uint32_t count;
    uint64_t taken;
};

struct rival_merge {
    struct rival_packets packets;
    uint32_t data_room; /* of a mbuf, behind the headroom */
    struct rte_mempool *pool;
    struct rte_ring *rings[LINES];
    struct rte_ring *between;
    struct rival_line lines[LINES];
    struct rival_device devices[LINES];
    bool is_there[LINES];
    uint64_t received[LINES];
    int turn; /* the line that receives next */
    uint64_t most;
    uint64_t all;
    int timestamp;
    int stamp;
    uint8_t *output;
    struct entry *worklist;
    uint32_t stride; /* from packet to packet in the output */
    uint32_t rooms;
    uint32_t whole_rooms; /* where each has a whole segment's room */
    uint32_t next;        /* room */
    uint64_t copied;
    uint64_t read;
    uint64_t read_bytes[LINES];
    uint64_t newest; /* of the packets copied so far, by its place in the order */
    struct head heads[LINES];
};

/* What a card writes into an mbuf before it is received. */
static void write_packet(struct rte_mempool *pool, void *opaque, void *object, unsigned number)
{
    const struct rival_merge *merge = opaque;
    const struct rival_packets *packets = &merge->packets;
    const uint8_t *bytes = merge->lines[number % LINES].bytes;
    struct rte_mbuf *mbuf = object;
    uint8_t *data = (uint8_t *)mbuf->buf_addr + RTE_PKTMBUF_HEADROOM;
    RTE_SET_USED(pool);
    if (bytes != NULL)
        memcpy(data, bytes + (size_t)(number / LINES % packets->count) * packets->stride,
               packets->bytes);
}

struct rival_merge *rival_merge_create(const struct rival_shape *shape,
                                       const struct rival_packets *packets,
                                       const struct rival_line lines[4], uint64_t most,
                                       const struct rival_output *output, bool *is_huge)
{
    static const struct rte_mbuf_dynfield stamp = {
        .name = "rival_stamp", .size = sizeof(uint64_t), .align = __alignof__(uint64_t)};
    struct rival_merge *merge = calloc(1, sizeof(*merge));
    if (merge == NULL)
        return NULL;
    merge->timestamp = rival_timestamp();
    merge->stamp = rte_mbuf_dynfield_register(&stamp);
    merge->packets = *packets;
    /* The usual size, and larger only if packets are longer. */
    merge->data_room = RTE_MAX(RTE_MBUF_DEFAULT_DATAROOM, RTE_ALIGN(packets->bytes, 64));
    merge->pool = rival_pool_of(shape, merge->data_room, is_huge);
    merge->between = rival_ring(shape);
    bool is_whole = merge->timestamp >= 0 && merge->stamp >= 0;
    is_whole = is_whole && merge->pool != NULL && merge->between != NULL;
    for (int line = 0; line < LINES; line++) {
        merge->lines[line] = lines[line];
        merge->is_there[line] = lines[line].bytes != NULL;
        merge->all += merge->is_there[line] ? most : 0;
        merge->rings[line] = rival_ring(shape);
        is_whole = is_whole && merge->rings[line] != NULL;
    }
    if (merge->pool != NULL)
        rte_mempool_obj_iter(merge->pool, write_packet, merge);
    merge->most = most;
    merge->output = output->bytes;
    merge->worklist = output->worklist;
    merge->stride = RTE_ALIGN(packets->bytes, 64);
    merge->rooms = output->room / merge->stride;
    merge->whole_rooms = output->room / merge->data_room;
    if (is_whole)
        return merge;
    rival_merge_destroy(merge);
    return NULL;
}

uint32_t rival_merge_destroy(struct rival_merge *merge)
{
    for (int line = 0; line < LINES; line++)
        rival_device_close(&merge->devices[line]);
    uint32_t missing = merge->pool != NULL ? rte_mempool_in_use_count(merge->pool) : 0;
    rte_mempool_free(merge->pool);
    rte_ring_free(merge->between);
    for (int line = 0; line < LINES; line++)
        rte_ring_free(merge->rings[line]);
    free(merge);
    return missing;
}

static inline uint64_t *stamp_of(const struct rival_merge *merge, struct rte_mbuf *mbuf)
{
    return RTE_MBUF_DYNFIELD(mbuf, merge->stamp, uint64_t *);
}

static inline uint64_t time_of(const struct rival_merge *merge, struct rte_mbuf *mbuf)
{
    return *RTE_MBUF_DYNFIELD(mbuf, merge->timestamp, rte_mbuf_timestamp_t *);
}

/* ---- Receive: as a driver does, from packets that a card has written. ---- */

static inline void describe(const struct rival_merge *merge, struct rte_mbuf *mbuf, int line,
                        uint64_t packet)
{
    const struct rival_packets *packets = &merge->packets;
    uint64_t round = packet >> __builtin_ctz(packets->count), at = packet & (packets->count - 1);
    mbuf->data_len = packets->bytes;
    mbuf->pkt_len = packets->bytes;
    mbuf->port = line;
    *RTE_MBUF_DYNFIELD(mbuf, merge->timestamp, rte_mbuf_timestamp_t *) =
        round * packets->count * packets->frame_ns + merge->lines[line].times_ns[at];
}

/* A burst of each port, in turn. False if all have received everything. When the pool is empty, the
 * port whose turn it was continues first. Otherwise the first port would get all mbufs, and the
 * merge by packet would wait for the last port. */
static inline bool receive_turn(struct rival_merge *merge)
{
    bool is_open = false;
    for (int step = 0; step < LINES; step++) {
        struct rte_mbuf *mbufs[BURST];
        int line = merge->turn;
        bool is_over = !merge->is_there[line] || merge->received[line] == merge->most;
        if (!is_over && rte_ring_free_count(merge->rings[line]) >= BURST) {
            if (rte_pktmbuf_alloc_bulk(merge->pool, mbufs, BURST) != 0)
                return true;
            for (int index = 0; index < BURST; index++)
                describe(merge, mbufs[index], line, merge->received[line] + index);
            merge->received[line] += BURST;
            *stamp_of(merge, mbufs[0]) = rte_rdtsc();
            rte_ring_enqueue_bulk(merge->rings[line], (void **)mbufs, BURST, NULL);
        }
        is_open = is_open || !is_over;
        merge->turn = (line + 1) % LINES;
    }
    return is_open;
}

void rival_merge_receive(struct rival_merge *merge)
{
    rival_enter();
    while (receive_turn(merge))
        ;
    rival_leave();
}

/* ---- Merge. ---- */

static inline __attribute__((always_inline)) bool refill(struct rival_merge *merge, int line,
                                                         enum hint hint, bool is_live)
{
    struct head *head = &merge->heads[line];
    if (head->next < head->count)
        return true;
    head->next = 0;
    void **mbufs = (void **)head->mbufs;
    /* Live, a ring never has more than the burst of this turn. */
    head->count = is_live ? rte_ring_dequeue_burst(merge->rings[line], mbufs, BURST, NULL)
                          : rte_ring_dequeue_bulk(merge->rings[line], mbufs, BURST, NULL);
    if (head->count == 0)
        return false;
    head->taken += head->count;
    for (uint32_t index = 0; index < AHEAD && index < head->count; index++)
        ahead(head->mbufs[index], hint);
    head->time_ns = time_of(merge, head->mbufs[0]);
    return true;
}

/* Passes on the oldest burst. */
static inline __attribute__((always_inline)) bool merge_burst(struct rival_merge *merge,
                                                              enum hint hint, bool is_live)
{
    struct head *oldest = NULL;
    uint64_t oldest_stamp = UINT64_MAX;
    for (int line = 0; line < LINES; line++) {
        struct head *head = &merge->heads[line];
        if (!merge->is_there[line] || !refill(merge, line, hint, is_live))
            continue;
        uint64_t stamp = *stamp_of(merge, head->mbufs[0]);
        if (stamp < oldest_stamp) {
            oldest = head;
            oldest_stamp = stamp;
        }
    }
    if (oldest == NULL)
        return false;
    uint32_t count = is_live ? oldest->count : BURST;
    rte_ring_enqueue_bulk(merge->between, (void **)oldest->mbufs, count, NULL);
    oldest->next = oldest->count;
    return true;
}

/* Passes on the next 32 packets by their times: of each unfinished line, one must be present. The
 * rest of a burst stays for the next call. */
static inline __attribute__((always_inline)) bool merge_packets(struct rival_merge *merge,
                                                                enum hint hint, bool is_live)
{
    struct rte_mbuf *burst[BURST];
    uint32_t count = 0;
    while (count < BURST) {
        struct head *oldest = NULL;
        bool is_waiting = false;
        for (int line = 0; line < LINES; line++) {
            struct head *head = &merge->heads[line];
            if (head->next == head->count) {
                bool is_over = !is_live && head->taken == merge->most;
                if (!merge->is_there[line] || is_over)
                    continue;
                if (!refill(merge, line, hint, is_live)) {
                    if (is_live)
                        continue;
                    is_waiting = true;
                    break;
                }
            }
            if (oldest == NULL || head->time_ns < oldest->time_ns)
                oldest = head;
        }
        if (is_waiting || oldest == NULL)
            break;
        burst[count++] = oldest->mbufs[oldest->next++];
        if (oldest->next + AHEAD < oldest->count)
            ahead(oldest->mbufs[oldest->next + AHEAD], hint);
        if (oldest->next < oldest->count)
            oldest->time_ns = time_of(merge, oldest->mbufs[oldest->next]);
    }
    if (count != 0)
        rte_ring_enqueue_bulk(merge->between, (void **)burst, count, NULL);
    return count != 0;
}

/* ---- Copy. ---- */

static inline __attribute__((always_inline)) void
copy_packet(struct rival_merge *merge, struct rte_mbuf *mbuf, bool is_whole, bool is_live)
{
    uint32_t stride = is_whole ? merge->data_room : merge->stride;
    uint32_t rooms = is_whole ? merge->whole_rooms : merge->rooms;
    uint32_t at = merge->next;
    merge->next = at + 1 == rooms ? 0 : at + 1;
    merge->copied++;
    const void *data = rte_pktmbuf_mtod(mbuf, const void *);
    /* Live, anything may come. */
    uint32_t length = is_live ? RTE_MIN(mbuf->data_len, merge->stride) : mbuf->data_len;
    /* Copies the whole segment, without looking at the packet's length. */
    if (is_whole)
        rte_memcpy(merge->output + (size_t)at * stride, data, merge->data_room);
    else
        rte_memcpy(merge->output + (size_t)at * stride, data, length);
    merge->worklist[at] = (struct entry){at * stride, length << 8 | mbuf->port,
                                         time_of(merge, mbuf)};
}

/* ---- Read. ---- */

/* The last `count` entries of the worklist, counted as a reader of our log does. */
static inline __attribute__((always_inline)) void read_burst(struct rival_merge *merge,
                                                             uint32_t count, bool is_whole)
{
    uint32_t rooms = is_whole ? merge->whole_rooms : merge->rooms;
    uint32_t at = merge->next >= count ? merge->next - count : merge->next + rooms - count;
    for (; count > 0; count--) {
        const struct entry *entry = &merge->worklist[at];
        at = at + 1 == rooms ? 0 : at + 1;
        merge->read_bytes[(uint8_t)entry->shape % LINES] += entry->shape >> 8;
        merge->read++;
    }
}

/* The place of a packet in the order of all. Live, frames are dealt, DEALT to each port in turn,
 * and numbered by port, which gives the order in which they were sent. */
static inline uint64_t order_of(const struct rival_merge *merge, struct rte_mbuf *mbuf, bool is_live)
{
    if (!is_live)
        return time_of(merge, mbuf);
    uint64_t number;
    memcpy(&number, rte_pktmbuf_mtod_offset(mbuf, uint8_t *, NUMBER_AT), sizeof(number));
    number = rte_be_to_cpu_64(number);
    return (number / DEALT * LINES + mbuf->port) * DEALT + number % DEALT;
}

static inline __attribute__((always_inline)) uint64_t
copy_burst(struct rival_merge *merge, enum hint hint, bool is_whole, bool is_checking, bool is_live)
{
    struct rte_mbuf *mbufs[BURST];
    uint64_t violations = 0;
    uint32_t count = rte_ring_dequeue_burst(merge->between, (void **)mbufs, BURST, NULL);
    for (uint32_t index = 0; index < AHEAD && index < count; index++)
        ahead(mbufs[index], hint);
    for (uint32_t index = 0; index < count; index++) {
        if (index + AHEAD < count)
            ahead(mbufs[index + AHEAD], hint);
        copy_packet(merge, mbufs[index], is_whole, is_live);
        if (is_checking) {
            uint64_t place = order_of(merge, mbufs[index], is_live);
            violations += place < merge->newest;
            merge->newest = RTE_MAX(place, merge->newest);
        }
    }
    rte_pktmbuf_free_bulk(mbufs, count);
    read_burst(merge, count, is_whole);
    return violations;
}

/* All stages, in one of the manners; with `is_alone` receiving takes turns here, too. */
static inline __attribute__((always_inline)) uint64_t
merge_and_copy(struct rival_merge *merge, bool is_ordered, bool is_whole, enum hint hint,
               bool is_checking, bool is_alone)
{
    uint64_t violations = 0;
    while (merge->copied < merge->all) {
        if (is_alone)
            receive_turn(merge);
        bool is_merged = is_ordered ? merge_packets(merge, hint, false)
                                    : merge_burst(merge, hint, false);
        if (is_merged)
            violations += copy_burst(merge, hint, is_whole, is_checking, false);
        else if (!is_alone)
            rte_pause();
    }
    return violations;
}

/* Packets that were read, if each had the right length. */
static uint64_t seen(const struct rival_merge *merge)
{
    uint64_t bytes = 0;
    for (int line = 0; line < LINES; line++)
        bytes += merge->read_bytes[line];
    return bytes == merge->read * merge->packets.bytes ? merge->read : 0;
}

/* Each manner has its own loop. Returns the number of packets read. */
static inline __attribute__((always_inline)) uint64_t
in_manner(struct rival_merge *merge, const struct rival_manner *manner, uint64_t *violations,
          bool is_alone)
{
    rival_enter();
    if (manner->is_checking)
        *violations = merge_and_copy(merge, manner->is_ordered, false, HINT_T0, true, is_alone);
    else if (manner->is_ordered)
        merge_and_copy(merge, true, false, HINT_T0, false, is_alone);
    else if (manner->is_whole)
        merge_and_copy(merge, false, true, HINT_T0, false, is_alone);
    else if (manner->hint == HINT_T0)
        merge_and_copy(merge, false, false, HINT_T0, false, is_alone);
    else if (manner->hint == HINT_T1)
        merge_and_copy(merge, false, false, HINT_T1, false, is_alone);
    else
        merge_and_copy(merge, false, false, HINT_NONE, false, is_alone);
    rival_leave();
    return seen(merge);
}

uint64_t rival_merge_copy(struct rival_merge *merge, const struct rival_manner *manner,
                          uint64_t *violations)
{
    return in_manner(merge, manner, violations, false);
}

uint64_t rival_merge_turns(struct rival_merge *merge, const struct rival_manner *manner,
                           uint64_t *violations)
{
    return in_manner(merge, manner, violations, true);
}

/* ---- Live. ---- */

int rival_merge_open(struct rival_merge *merge, uint32_t line, const char *devargs)
{
    int done = rival_device_open(&merge->devices[line], merge->pool, devargs);
    merge->is_there[line] = done == 0;
    return done;
}

/* A burst of each port, with the time of its poll: the driver has no other time. */
static inline uint32_t receive_live(struct rival_merge *merge)
{
    uint32_t all = 0;
    for (int line = 0; line < LINES; line++) {
        struct rte_mbuf *mbufs[BURST];
        uint16_t count = rte_eth_rx_burst(merge->devices[line].port, 0, mbufs, BURST);
        if (count == 0)
            continue;
        uint64_t now = rte_rdtsc();
        for (int index = 0; index < count; index++) {
            mbufs[index]->port = line;
            *RTE_MBUF_DYNFIELD(mbufs[index], merge->timestamp, rte_mbuf_timestamp_t *) = now;
        }
        *stamp_of(merge, mbufs[0]) = now;
        /* There is room: rings are emptied in each turn. */
        rte_ring_enqueue_bulk(merge->rings[line], (void **)mbufs, count, NULL);
        all += count;
    }
    return all;
}

static inline __attribute__((always_inline)) uint64_t
live(struct rival_merge *merge, const uint32_t *is_over, bool is_ordered, bool is_checking)
{
    uint64_t violations = 0;
    for (;;) {
        bool is_last = __atomic_load_n(is_over, __ATOMIC_ACQUIRE) != 0; /* the caller's store */
        if (receive_live(merge) == 0 && is_last)
            return violations;
        while (is_ordered ? merge_packets(merge, HINT_T0, true) : merge_burst(merge, HINT_T0, true))
            violations += copy_burst(merge, HINT_T0, false, is_checking, true);
    }
}

uint64_t rival_merge_live(struct rival_merge *merge, const struct rival_manner *manner,
                          const uint32_t *is_over, uint64_t *violations)
{
    rival_enter();
    if (manner->is_checking)
        *violations = live(merge, is_over, manner->is_ordered, true);
    else if (manner->is_ordered)
        live(merge, is_over, true, false);
    else
        live(merge, is_over, false, false);
    rival_leave();
    return merge->read;
}
