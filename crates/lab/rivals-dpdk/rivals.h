/*
 * The rivals on DPDK's own API. ../src/rivals/dpdk.rs declares the same: change both together. Each
 * function is a whole loop, so the cost of the call from Rust does not count per packet.
 *
 * Every thread that calls a loop registers with EAL for its time, so that pools have a cache for it.
 */
#ifndef BURSTLINE_RIVALS_H
#define BURSTLINE_RIVALS_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>

/* Packets of a burst, as in DPDK's examples (MAX_PKT_BURST). */
#define BURST 32
/* The largest burst of a pipeline. */
#define BURST_MOST 256
/* Packets ahead that are prefetched (PREFETCH_OFFSET is 3 in l3fwd, 4 here as in our own rivals). */
#define AHEAD 4

enum hint { HINT_NONE, HINT_T0, HINT_T1 };

/* The shapes that the search tries. */
struct rival_shape {
    uint32_t objects; /* of the pool */
    uint32_t cache;   /* of each core, in objects */
    uint32_t slots;   /* of each pointer ring */
    uint8_t is_single; /* SP/SC rings, of pointers and of free objects; else MP/MC */
};

/* The packets of all lines, and the place of each line's packets: crates/lab/src/lines.rs. */
struct rival_packets {
    uint32_t bytes;
    uint32_t stride;
    uint32_t count; /* a power of two */
    uint32_t frame_ns;
};

struct rival_line {
    const uint8_t *bytes; /* NULL: this line is idle */
    const uint64_t *times_ns;
};

struct rival;
struct rival_merge;

struct rte_mempool *rival_pool(const struct rival_shape *shape, bool *is_huge);
/* With room for this many bytes of packet in each mbuf. */
struct rte_mempool *rival_pool_of(const struct rival_shape *shape, uint32_t data_room,
                                  bool *is_huge);
struct rte_ring *rival_ring(const struct rival_shape *shape);
int rival_timestamp(void); /* where an mbuf's time is; below 0: nowhere */
void rival_enter(void);
void rival_leave(void);

/* A device that packets arrive on. */
struct rival_device {
    uint16_t port;
    bool is_open;
};

/* 0 or a negative errno; close it in any case. */
int rival_device_open(struct rival_device *device, struct rte_mempool *pool, const char *devargs);
void rival_device_close(struct rival_device *device);

/* One thread fills, another reads. NULL: no memory. */
struct rival *rival_create(const struct rival_shape *shape, bool *is_huge);
/* Returns how many mbufs did not come back. */
uint32_t rival_destroy(struct rival *rival);
/* `burst`: packets that are taken, filled, handed over, read and given back at a time, in
 * [1, BURST_MOST]; `packets` is a multiple of it. */
void rival_produce(struct rival *rival, const uint8_t *packet, uint32_t length, uint64_t packets,
                   uint32_t burst);
uint64_t rival_consume(struct rival *rival, uint64_t packets, uint32_t hint, uint32_t burst);
/* Both in turns on one thread, a burst each. */
uint64_t rival_turns(struct rival *rival, const uint8_t *packet, uint32_t length, uint64_t packets,
                     uint32_t hint);
/* A driver's device instead of filling: 0 or a negative errno. */
int rival_open(struct rival *rival, const char *devargs);
void rival_receive(struct rival *rival, uint64_t packets);
/* Receives, hands over, reads and gives back, in turns on one thread, until `is_over` is not 0 and
 * nothing arrives. Returns the number of packets. */
uint64_t rival_live(struct rival *rival, const uint32_t *is_over, uint64_t *sum);
/* The same until this many packets came, from a device that always has some. Returns the sum. */
uint64_t rival_driver_turns(struct rival *rival, uint64_t packets);

/* A program on a driver's packets. Its arguments: EAL's, `--`, its own. */
int rival_balance_main(int count, char **arguments);
int rival_balance_receive(void *nothing);
int rival_balance_worker(void *worker);

/* One thread spreads packets over workers, another runs all of them in turns. NULL: no memory. */
enum interleaving { UNIFORM, BURSTS, ONE_IDLE };
struct rival_balance;
struct rival_balance *rival_balance_create(const struct rival_shape *shape, uint32_t workers,
                                           bool *is_huge);
/* Returns how many mbufs did not come back. */
uint32_t rival_balance_destroy(struct rival_balance *balance);
/* `packets` is a multiple of BURST. */
void rival_balance_spread(struct rival_balance *balance, const uint8_t *packet, uint32_t length,
                          uint64_t packets, uint32_t interleaving);
uint64_t rival_balance_work(struct rival_balance *balance, uint64_t packets);
/* Both take turns on one thread, `turn` packets each, uniform. `packets` is a multiple of `turn`,
 * `turn` a multiple of BURST, with room in the rings. Returns the sum. */
uint64_t rival_balance_turns(struct rival_balance *balance, const uint8_t *packet, uint32_t length,
                             uint64_t packets, uint32_t turn);

/* The memory that packets are merged into. */
struct rival_output {
    uint8_t *bytes;
    void *worklist; /* entries of 16 bytes: one for each packet that there is room for */
    uint32_t room;  /* bytes of packets; each has a multiple of 64 */
};

/* Four ports into one memory. */
struct rival_merge *rival_merge_create(const struct rival_shape *shape,
                                       const struct rival_packets *packets,
                                       const struct rival_line lines[4], uint64_t most,
                                       const struct rival_output *output, bool *is_huge);
uint32_t rival_merge_destroy(struct rival_merge *merge);
/* Receives all packets of all lines. */
void rival_merge_receive(struct rival_merge *merge);
/* How the other stages merge and copy. */
struct rival_manner {
    uint8_t is_ordered;    /* by packet; otherwise by burst, by the stamp of its first packet */
    uint8_t is_whole;      /* copies the whole data room of a segment; otherwise the packet */
    uint8_t hint;
    uint8_t is_checking;   /* counts packets older than the one before them */
};
/* Returns how many packets were copied; `violations` is set if it is checking. */
uint64_t rival_merge_copy(struct rival_merge *merge, const struct rival_manner *manner,
                          uint64_t *violations);
/* All stages on one thread. */
uint64_t rival_merge_turns(struct rival_merge *merge, const struct rival_manner *manner,
                           uint64_t *violations);
/* A driver's device in place of an idle line: 0 or a negative errno. */
int rival_merge_open(struct rival_merge *merge, uint32_t line, const char *devargs);
/* Receives from all devices, merges and copies, in turns on one thread, until `is_over` is not 0 and
 * nothing comes. Returns how many packets were copied; `violations` is set where it is checking. */
uint64_t rival_merge_live(struct rival_merge *merge, const struct rival_manner *manner,
                          const uint32_t *is_over, uint64_t *violations);

static inline __attribute__((always_inline)) void ahead(struct rte_mbuf *mbuf, enum hint hint)
{
    /* The packet is behind the mbuf and the headroom, unless it was moved. */
    char *data = (char *)mbuf + sizeof(struct rte_mbuf) + RTE_PKTMBUF_HEADROOM;
    if (hint == HINT_T0) {
        rte_prefetch0(mbuf);
        rte_prefetch0((char *)mbuf + RTE_CACHE_LINE_SIZE);
        rte_prefetch0(data);
    } else if (hint == HINT_T1) {
        rte_prefetch1(mbuf);
        rte_prefetch1((char *)mbuf + RTE_CACHE_LINE_SIZE);
        rte_prefetch1(data);
    }
}

#endif
