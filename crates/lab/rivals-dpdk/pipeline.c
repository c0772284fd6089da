/*
 * The run-to-completion and the pipeline program of the NUMA document, on mbufs.
 *
 *   producer: alloc bulk of 32 -> length, hash, time, rte_memcpy into place -> ring, bulk of 32
 *   consumer: ring, bulk of 32 -> prefetch ahead, read header and data -> free bulk of 32
 *
 * What DPDK's guides recommend, and what each choice is: pools with a cache for each core (the
 * search finds its size), objects spread over memory channels by the mempool itself, bulk calls for
 * pools and rings, single-producer and single-consumer rings where there is one of each (tried
 * against the others), prefetch of the next packets' mbufs and data, bursts of 32. The copy is
 * rte_memcpy as the library's flags compile it. The work of the consumer and the packets are those
 * of crates/lab/src/traffic.rs, and so is the sum that tells whether a packet was lost or torn.
 */
#include "rivals.h"

#include <stdlib.h>
#include <string.h>

#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_mbuf_dyn.h>
#include <rte_memcpy.h>

/* crates/lab/src/traffic.rs */
#define COUNTER_AT 26
#define TOUCHED_BYTES 55
#define START_NS UINT64_C(1700000000000000000)
#define HASH_FACTOR UINT32_C(2654435761)

struct rival {
    struct rte_mempool *pool;
    struct rte_ring *ring;
    int timestamp;
    uint16_t port;
    bool is_open;
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
    if (rival->is_open) {
        struct rte_eth_dev_info info;
        rte_eth_dev_info_get(rival->port, &info);
        rte_eth_dev_stop(rival->port);
        rte_eth_dev_close(rival->port);
        rte_dev_remove(info.device);
    }
    uint32_t missing = rival->pool != NULL ? rte_mempool_in_use_count(rival->pool) : 0;
    rte_mempool_free(rival->pool);
    rte_ring_free(rival->ring);
    free(rival);
    return missing;
}

static inline void fill(const struct rival *rival, struct rte_mbuf *mbuf, const uint8_t *packet,
                        uint32_t length, uint32_t counter)
{
    uint8_t *data = rte_pktmbuf_mtod(mbuf, uint8_t *);
    mbuf->data_len = length;
    mbuf->pkt_len = length;
    mbuf->hash.rss = counter * HASH_FACTOR;
    *RTE_MBUF_DYNFIELD(mbuf, rival->timestamp, rte_mbuf_timestamp_t *) = START_NS + counter;
    rte_memcpy(data, packet, length);
    memcpy(data + COUNTER_AT, &counter, sizeof(counter));
}

static inline void produce_burst(const struct rival *rival, const uint8_t *packet, uint32_t length,
                                 uint32_t first)
{
    struct rte_mbuf *mbufs[BURST];
    while (rte_pktmbuf_alloc_bulk(rival->pool, mbufs, BURST) != 0)
        rte_pause();
    for (uint32_t index = 0; index < BURST; index++)
        fill(rival, mbufs[index], packet, length, first + index);
    while (rte_ring_enqueue_bulk(rival->ring, (void **)mbufs, BURST, NULL) == 0)
        rte_pause();
}

static inline uint32_t word(const uint8_t *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof(value));
    return value;
}

static inline uint64_t digest(const struct rival *rival, const struct rte_mbuf *mbuf)
{
    const uint8_t *data = rte_pktmbuf_mtod(mbuf, const uint8_t *);
    uint64_t time_ns = *RTE_MBUF_DYNFIELD(mbuf, rival->timestamp, const rte_mbuf_timestamp_t *);
    uint64_t known = mbuf->data_len + (uint64_t)mbuf->hash.rss + time_ns;
    if (mbuf->data_len < TOUCHED_BYTES)
        return known;
    uint32_t words = word(data + 26) ^ word(data + 30) ^ word(data + 34);
    return known + words + (uint8_t)(data[23] ^ data[54]);
}

static inline __attribute__((always_inline)) uint64_t
read_burst(const struct rival *rival, struct rte_mbuf **mbufs, uint32_t count, enum hint hint)
{
    uint64_t sum = 0;
    for (uint32_t index = 0; index < AHEAD && index < count; index++)
        ahead(mbufs[index], hint);
    for (uint32_t index = 0; index < count; index++) {
        if (index + AHEAD < count)
            ahead(mbufs[index + AHEAD], hint);
        sum += digest(rival, mbufs[index]);
    }
    rte_pktmbuf_free_bulk(mbufs, count);
    return sum;
}

static inline __attribute__((always_inline)) uint64_t consume_burst(const struct rival *rival,
                                                                    enum hint hint)
{
    struct rte_mbuf *mbufs[BURST];
    while (rte_ring_dequeue_bulk(rival->ring, (void **)mbufs, BURST, NULL) == 0)
        rte_pause();
    return read_burst(rival, mbufs, BURST, hint);
}

/* A loop for each hint, so that none asks for it by packet. */
#define BY_HINT(hint, loop)                                                                        \
    switch (hint) {                                                                                \
    case HINT_T0: loop(HINT_T0); break;                                                            \
    case HINT_T1: loop(HINT_T1); break;                                                            \
    default: loop(HINT_NONE); break;                                                               \
    }

void rival_produce(struct rival *rival, const uint8_t *packet, uint32_t length, uint64_t packets)
{
    rival_enter();
    for (uint64_t first = 0; first < packets; first += BURST)
        produce_burst(rival, packet, length, first);
    rival_leave();
}

uint64_t rival_consume(struct rival *rival, uint64_t packets, uint32_t hint)
{
    uint64_t sum = 0;
    rival_enter();
#define CONSUME(by)                                                                                \
    for (uint64_t first = 0; first < packets; first += BURST)                                      \
        sum += consume_burst(rival, by)
    BY_HINT(hint, CONSUME)
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
        produce_burst(rival, packet, length, first);                                               \
        sum += consume_burst(rival, by);                                                           \
    }
    BY_HINT(hint, TURN)
    rival_leave();
    return sum;
}

int rival_open(struct rival *rival, const char *devargs)
{
    char name[64];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(devargs, ","), devargs);
    int done = rte_dev_probe(devargs);
    if (done == 0)
        done = rte_eth_dev_get_port_by_name(name, &rival->port);
    if (done != 0)
        return done;
    rival->is_open = true;
    struct rte_eth_conf conf;
    memset(&conf, 0, sizeof(conf));
    done = rte_eth_dev_configure(rival->port, 1, 0, &conf);
    if (done == 0)
        done = rte_eth_rx_queue_setup(rival->port, 0, 1024, SOCKET_ID_ANY, NULL, rival->pool);
    return done == 0 ? rte_eth_dev_start(rival->port) : done;
}

void rival_receive(struct rival *rival, uint64_t packets)
{
    rival_enter();
    for (uint64_t taken = 0; taken < packets;) {
        struct rte_mbuf *mbufs[BURST];
        uint16_t count = rte_eth_rx_burst(rival->port, 0, mbufs, BURST);
        taken += count;
        while (count != 0 && rte_ring_enqueue_bulk(rival->ring, (void **)mbufs, count, NULL) == 0)
            rte_pause();
    }
    rival_leave();
}

uint64_t rival_run(struct rival *rival, uint64_t packets, uint32_t hint)
{
    uint64_t sum = 0, taken = 0;
    rival_enter();
#define RUN(by)                                                                                    \
    while (taken < packets) {                                                                      \
        struct rte_mbuf *mbufs[BURST];                                                             \
        uint16_t count = rte_eth_rx_burst(rival->port, 0, mbufs, BURST);                           \
        taken += count;                                                                            \
        sum += read_burst(rival, mbufs, count, by);                                                \
    }
    BY_HINT(hint, RUN)
    rival_leave();
    return sum;
}
