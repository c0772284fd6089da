/*
 * The packets of the rivals, the work on them, and the sum that shows whether a packet was lost or
 * torn are those of ../src/traffic.rs. */
#ifndef BURSTLINE_RIVAL_PACKETS_H
#define BURSTLINE_RIVAL_PACKETS_H

#include "rivals.h"

#include <string.h>

#include <rte_mbuf_dyn.h>
#include <rte_memcpy.h>

#define COUNTER_AT 26
#define TOUCHED_BYTES 55
#define START_NS UINT64_C(1700000000000000000)
#define HASH_FACTOR UINT32_C(2654435761)

static inline void fill(struct rte_mbuf *mbuf, const uint8_t *packet, uint32_t length,
                        uint32_t counter, uint32_t hash, int timestamp)
{
    uint8_t *data = rte_pktmbuf_mtod(mbuf, uint8_t *);
    mbuf->data_len = length;
    mbuf->pkt_len = length;
    mbuf->hash.rss = hash;
    *RTE_MBUF_DYNFIELD(mbuf, timestamp, rte_mbuf_timestamp_t *) = START_NS + counter;
    rte_memcpy(data, packet, length);
    memcpy(data + COUNTER_AT, &counter, sizeof(counter));
}

static inline uint32_t word(const uint8_t *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof(value));
    return value;
}

static inline uint64_t digest(const struct rte_mbuf *mbuf, int timestamp)
{
    const uint8_t *data = rte_pktmbuf_mtod(mbuf, const uint8_t *);
    uint64_t time_ns = *RTE_MBUF_DYNFIELD(mbuf, timestamp, const rte_mbuf_timestamp_t *);
    uint64_t known = mbuf->data_len + (uint64_t)mbuf->hash.rss + time_ns;
    if (mbuf->data_len < TOUCHED_BYTES)
        return known;
    uint32_t words = word(data + 26) ^ word(data + 30) ^ word(data + 34);
    return known + words + (uint8_t)(data[23] ^ data[54]);
}

static inline __attribute__((always_inline)) uint64_t
read_burst(struct rte_mbuf **mbufs, uint32_t count, enum hint hint, int timestamp)
{
    uint64_t sum = 0;
    for (uint32_t index = 0; index < AHEAD && index < count; index++)
        ahead(mbufs[index], hint);
    for (uint32_t index = 0; index < count; index++) {
        if (index + AHEAD < count)
            ahead(mbufs[index + AHEAD], hint);
        sum += digest(mbufs[index], timestamp);
    }
    rte_pktmbuf_free_bulk(mbufs, count);
    return sum;
}

#endif
