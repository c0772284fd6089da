/*
 * The balancer of the NUMA document, on mbufs: one pool, a ring of pointers for each worker.
 *
 *   receiver: alloc bulk of 32 -> fill -> worker by hash -> its 32 pointers -> ring, when 32 wait
 *   workers:  each ring in turn, up to 32 -> prefetch ahead, read header and data -> free bulk
 *
 * Choices as in pipeline.c. Pointers wait until there are 32 for a worker, as rte_eth_tx_buffer
 * does for a port: cheapest for both cores. All workers take turns on one core.
 */
#include "packets.h"

#include <stdlib.h>

#define WORKERS_MAX 8

struct rival_balance {
    struct rte_mempool *pool;
    struct rte_ring *rings[WORKERS_MAX];
    uint32_t workers;
    int timestamp;
};

/* Pointers on their way to one worker. */
struct pending {
    struct rte_mbuf *mbufs[BURST];
    uint32_t count;
};

struct rival_balance *rival_balance_create(const struct rival_shape *shape, uint32_t workers,
                                           bool *is_huge)
{
    struct rival_balance *balance = calloc(1, sizeof(*balance));
    if (balance == NULL || workers > WORKERS_MAX) {
        free(balance);
        return NULL;
    }
    balance->timestamp = rival_timestamp();
    balance->pool = rival_pool(shape, is_huge);
    bool is_whole = balance->timestamp >= 0 && balance->pool != NULL;
    for (; balance->workers < workers; balance->workers++) {
        balance->rings[balance->workers] = rival_ring(shape);
        is_whole = is_whole && balance->rings[balance->workers] != NULL;
    }
    if (is_whole)
        return balance;
    rival_balance_destroy(balance);
    return NULL;
}

uint32_t rival_balance_destroy(struct rival_balance *balance)
{
    uint32_t missing = balance->pool != NULL ? rte_mempool_in_use_count(balance->pool) : 0;
    rte_mempool_free(balance->pool);
    for (uint32_t worker = 0; worker < balance->workers; worker++)
        rte_ring_free(balance->rings[worker]);
    free(balance);
    return missing;
}

/* The same packets and workers as in ../src/contenders/in_memory/spread/sides.rs. */
static inline uint32_t hash_of(uint32_t number)
{
    uint32_t mixed = number * UINT32_C(0x9e3779b1);
    return (mixed ^ mixed >> 15) * UINT32_C(0x85ebca6b);
}

static inline uint32_t worker_of(uint32_t hash, uint32_t workers)
{
    uint32_t bucket = hash * UINT32_C(0x9e3779b1) >> 24; /* crates/log/src/packets/buckets.rs */
    return bucket * workers >> 8;
}

static inline __attribute__((always_inline)) uint32_t
flow_of(uint32_t counter, uint32_t workers, enum interleaving interleaving)
{
    uint32_t hash = hash_of(interleaving == BURSTS ? counter / 32 : counter);
    if (interleaving == ONE_IDLE && worker_of(hash, workers) == workers - 1)
        hash ^= UINT32_C(1) << 31;
    return hash;
}

static inline void flush(struct rte_ring *ring, struct pending *pending)
{
    void **mbufs = (void **)pending->mbufs;
    while (pending->count > 0 && rte_ring_enqueue_bulk(ring, mbufs, pending->count, NULL) == 0)
        rte_pause();
    pending->count = 0;
}

static inline __attribute__((always_inline)) void
spread(const struct rival_balance *balance, const uint8_t *packet, uint32_t length,
       uint64_t start, uint64_t end, enum interleaving interleaving)
{
    struct pending pending[WORKERS_MAX] = { 0 };
    for (uint64_t first = start; first < end; first += BURST) {
        struct rte_mbuf *mbufs[BURST];
        while (rte_pktmbuf_alloc_bulk(balance->pool, mbufs, BURST) != 0)
            rte_pause();
        for (uint32_t index = 0; index < BURST; index++) {
            uint32_t counter = first + index;
            uint32_t hash = flow_of(counter, balance->workers, interleaving);
            uint32_t worker = worker_of(hash, balance->workers);
            struct pending *own = &pending[worker];
            fill(mbufs[index], packet, length, counter, hash, balance->timestamp);
            own->mbufs[own->count++] = mbufs[index];
            if (own->count == BURST)
                flush(balance->rings[worker], own);
        }
    }
    for (uint32_t worker = 0; worker < balance->workers; worker++)
        flush(balance->rings[worker], &pending[worker]);
}

void rival_balance_spread(struct rival_balance *balance, const uint8_t *packet, uint32_t length,
                          uint64_t packets, uint32_t interleaving)
{
    rival_enter();
    switch (interleaving) {
    case BURSTS: spread(balance, packet, length, 0, packets, BURSTS); break;
    case ONE_IDLE: spread(balance, packet, length, 0, packets, ONE_IDLE); break;
    default: spread(balance, packet, length, 0, packets, UNIFORM); break;
    }
    rival_leave();
}

static inline uint64_t work(const struct rival_balance *balance, uint64_t packets)
{
    uint64_t sum = 0, seen = 0;
    while (seen < packets) {
        uint64_t before = seen;
        for (uint32_t worker = 0; worker < balance->workers; worker++) {
            struct rte_mbuf *mbufs[BURST];
            uint32_t count =
                rte_ring_dequeue_burst(balance->rings[worker], (void **)mbufs, BURST, NULL);
            if (count == 0)
                continue;
            seen += count;
            sum += read_burst(mbufs, count, HINT_T0, balance->timestamp);
        }
        if (seen == before)
            rte_pause();
    }
    return sum;
}

uint64_t rival_balance_work(struct rival_balance *balance, uint64_t packets)
{
    rival_enter();
    uint64_t sum = work(balance, packets);
    rival_leave();
    return sum;
}

uint64_t rival_balance_turns(struct rival_balance *balance, const uint8_t *packet, uint32_t length,
                             uint64_t packets, uint32_t turn)
{
    uint64_t sum = 0;
    rival_enter();
    for (uint64_t first = 0; first < packets; first += turn) {
        spread(balance, packet, length, first, first + turn, UNIFORM);
        sum += work(balance, turn);
    }
    rival_leave();
    return sum;
}
