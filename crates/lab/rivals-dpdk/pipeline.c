/*
 * The run-to-completion and the pipeline program of the NUMA document, on mbufs.
 *
 *   producer: alloc bulk of 32 -> length, hash, time, rte_memcpy into place -> ring, bulk of 32
 *   consumer: ring, bulk of 32 -> prefetch ahead, read header and data -> free bulk of 32
 *
 * The choices follow DPDK's guides: pools with a cache for each core (the
 * search finds its size), objects spread over memory channels by the mempool itself, bulk calls for
 * pools and rings, single-producer and single-consumer rings where there is one of each (tried
 * against the others), prefetch of the next packets' mbufs and data, bursts of 32 (other sizes in a
 * sweep, in separate loops). The copy is rte_memcpy as the library's flags compile it. The packets,
 * the consumer's work, and the sum that shows whether a packet was lost or torn are those of
 * crates/lab/src/traffic.rs. */
#include "packets.h"

#include <stdlib.h>

#include <rte_ethdev.h>

struct rival {
    struct rte_mempool *pool;
    struct rte_ring *ring;
    int timestamp;
    struct rival_device device;
};

struct rival *rival_create(const struct rival_shape *shape, bool *is_huge)
{
    struct rival *rival = calloc(1, sizeof(*rival));
    if (rival == NULL)
        return NULL;
    rival->timestamp = rival_timestamp();
    rival->pool = rival_pool(shape, is_huge);
    rival->ring = rival_ring(shape);
    if (rival->timestamp < 0 || rival->pool == NULL || rival->ring == NULL) {
        rival_destroy(rival);
        return NULL;
    }
    return rival;
}

uint32_t rival_destroy(struct rival *rival)
{
    rival_device_close(&rival->device);
    uint32_t missing = rival->pool != NULL ? rte_mempool_in_use_count(rival->pool) : 0;
    rte_mempool_free(rival->pool);
    rte_ring_free(rival->ring);
    free(rival);
    return missing;
}

static inline __attribute__((always_inline)) void produce_burst(const struct rival *rival,
                                                                const uint8_t *packet,
                                                                uint32_t length, uint32_t first,
                                                                uint32_t burst)
{
    struct rte_mbuf *mbufs[BURST_MOST];
    while (rte_pktmbuf_alloc_bulk(rival->pool, mbufs, burst) != 0)
        rte_pause();
    for (uint32_t index = 0; index < burst; index++) {
        uint32_t counter = first + index;
        fill(mbufs[index], packet, length, counter, counter * HASH_FACTOR, rival->timestamp);
    }
    while (rte_ring_enqueue_bulk(rival->ring, (void **)mbufs, burst, NULL) == 0)
        rte_pause();
}

static inline __attribute__((always_inline)) uint64_t
consume_burst(const struct rival *rival, enum hint hint, uint32_t burst)
{
    struct rte_mbuf *mbufs[BURST_MOST];
    while (rte_ring_dequeue_bulk(rival->ring, (void **)mbufs, burst, NULL) == 0)
        rte_pause();
    return read_burst(mbufs, burst, hint, rival->timestamp);
}

/* A loop for each hint, so that no loop checks it for each packet. */
#define BY_HINT(hint, loop)                                                                        \
    switch (hint) {                                                                                \
    case HINT_T0: loop(HINT_T0); break;                                                            \
    case HINT_T1: loop(HINT_T1); break;                                                            \
    default: loop(HINT_NONE); break;                                                               \
    }

void rival_produce(struct rival *rival, const uint8_t *packet, uint32_t length, uint64_t packets,
                   uint32_t burst)
{
    rival_enter();
    if (burst == BURST) {
        /* The usual number is a constant for the compiler. */
        for (uint64_t first = 0; first < packets; first += BURST)
            produce_burst(rival, packet, length, first, BURST);
    } else {
        for (uint64_t first = 0; first < packets; first += burst)
            produce_burst(rival, packet, length, first, burst);
    }
    rival_leave();
}

uint64_t rival_consume(struct rival *rival, uint64_t packets, uint32_t hint, uint32_t burst)
{
    uint64_t sum = 0;
    rival_enter();
#define CONSUME(by)                                                                                \
    for (uint64_t first = 0; first < packets; first += BURST)                                      \
        sum += consume_burst(rival, by, BURST)
#define CONSUME_IN(by)                                                                             \
    for (uint64_t first = 0; first < packets; first += burst)                                      \
        sum += consume_burst(rival, by, burst)
    if (burst == BURST) {
        BY_HINT(hint, CONSUME)
    } else {
        BY_HINT(hint, CONSUME_IN)
    }
    rival_leave();
    return sum;
}

uint64_t rival_turns(struct rival *rival, const uint8_t *packet, uint32_t length, uint64_t packets,
                     uint32_t hint)
{
    uint64_t sum = 0;
    rival_enter();
#define TURN(by)                                                                                   \
    for (uint64_t first = 0; first < packets; first += BURST) {                                    \
        produce_burst(rival, packet, length, first, BURST);                                        \
        sum += consume_burst(rival, by, BURST);                                                    \
    }
    BY_HINT(hint, TURN)
    rival_leave();
    return sum;
}

int rival_open(struct rival *rival, const char *devargs)
{
    return rival_device_open(&rival->device, rival->pool, devargs);
}

void rival_receive(struct rival *rival, uint64_t packets)
{
    rival_enter();
    for (uint64_t taken = 0; taken < packets;) {
        struct rte_mbuf *mbufs[BURST];
        uint16_t count = rte_eth_rx_burst(rival->device.port, 0, mbufs, BURST);
        taken += count;
        while (count != 0 && rte_ring_enqueue_bulk(rival->ring, (void **)mbufs, count, NULL) == 0)
            rte_pause();
    }
    rival_leave();
}

/* A burst of the device, if there is one: handed over and read. */
static inline uint16_t turn(const struct rival *rival, uint64_t *sum)
{
    struct rte_mbuf *mbufs[BURST];
    uint16_t count = rte_eth_rx_burst(rival->device.port, 0, mbufs, BURST);
    if (count == 0)
        return 0;
    /* There is room: the ring is emptied in each turn. */
    while (rte_ring_enqueue_bulk(rival->ring, (void **)mbufs, count, NULL) == 0)
        rte_pause();
    while (rte_ring_dequeue_bulk(rival->ring, (void **)mbufs, count, NULL) == 0)
        rte_pause();
    *sum += read_burst(mbufs, count, HINT_T0, rival->timestamp);
    return count;
}

uint64_t rival_live(struct rival *rival, const uint32_t *is_over, uint64_t *sum)
{
    uint64_t taken = 0;
    rival_enter();
    for (;;) {
        bool is_last = __atomic_load_n(is_over, __ATOMIC_ACQUIRE) != 0; /* the caller's store */
        uint16_t count = turn(rival, sum);
        if (count == 0 && is_last)
            break;
        taken += count;
    }
    rival_leave();
    return taken;
}

uint64_t rival_driver_turns(struct rival *rival, uint64_t packets)
{
    uint64_t taken = 0, sum = 0;
    rival_enter();
    while (taken < packets)
        taken += turn(rival, &sum);
    rival_leave();
    return sum;
}
