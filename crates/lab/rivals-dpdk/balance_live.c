/*
 * The pipeline of the NUMA document as its own program, on a driver's packets.
 *
 *   receive lcore: rx burst of 32 -> 30th byte -> its worker's pointers -> ring, when 32 wait
 *   worker lcores: up to 32 of the own ring -> count -> free bulk
 *   main lcore:    sleeps until SIGINT, then prints one line of JSON
 *
 * As in the document, the pool is on the receive lcore's node, one byte of the packet is its hash,
 * and workers count. The first lcore after the main one receives, the others work. Pointers wait
 * until there are 32, or until no more packets arrive. Packets that a full ring does not take are
 * freed and counted. With `--share` lcores share one core, and yield it when they find nothing.
 *
 *   EAL's arguments -- --device DEVARGS [--byte 30] [--share]
 */
#include "rivals.h"

#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_prefetch.h>

#define WORKERS_MAX 64
/* As in ../src/contenders/in_memory/pipeline/live.rs. */
#define OBJECTS 16383
#define CACHE 256
#define SLOTS 1024

struct worker {
    struct rte_ring *ring;
    uint64_t packets;
    uint64_t bytes;
    uint64_t busy_cycles;
} __rte_cache_aligned;

static struct {
    struct rival_device device;
    struct rte_mempool *pool;
    uint32_t byte;
    bool is_shared;
    uint32_t workers;
    struct worker all[WORKERS_MAX];
    /* Of the receive lcore. */
    uint64_t received, ring_full, poll_cycles, enqueue_cycles;
} self;

static volatile sig_atomic_t is_over;
static uint32_t has_received_all;

static void end(int signal)
{
    (void)signal;
    is_over = 1;
}

static inline void give_way(void)
{
    if (self.is_shared)
        sched_yield();
    else
        rte_pause();
}

struct pending {
    struct rte_mbuf *mbufs[BURST];
    uint32_t count;
};

static void flush(struct rte_ring *ring, struct pending *pending)
{
    uint32_t taken =
        rte_ring_sp_enqueue_burst(ring, (void **)pending->mbufs, pending->count, NULL);
    if (taken < pending->count) {
        self.ring_full += pending->count - taken;
        rte_pktmbuf_free_bulk(pending->mbufs + taken, pending->count - taken);
    }
    pending->count = 0;
}

int rival_balance_receive(void *nothing)
{
    static struct pending pending[WORKERS_MAX];
    uint32_t workers = self.workers, at = self.byte - 1;
    (void)nothing;
    for (;;) {
        struct rte_mbuf *mbufs[BURST];
        uint64_t start = rte_rdtsc();
        bool is_last = is_over;
        uint16_t count = rte_eth_rx_burst(self.device.port, 0, mbufs, BURST);
        uint64_t polled = rte_rdtsc();
        if (count == 0) {
            for (uint32_t worker = 0; worker < workers; worker++)
                if (pending[worker].count > 0)
                    flush(self.all[worker].ring, &pending[worker]);
            if (is_last)
                break;
            give_way();
            continue;
        }
        self.received += count;
        for (uint16_t index = 0; index < count && index < AHEAD; index++)
            rte_prefetch0(rte_pktmbuf_mtod(mbufs[index], void *));
        for (uint16_t index = 0; index < count; index++) {
            struct rte_mbuf *mbuf = mbufs[index];
            if (index + AHEAD < count)
                rte_prefetch0(rte_pktmbuf_mtod(mbufs[index + AHEAD], void *));
            mbuf->hash.rss =
                at < mbuf->data_len ? *rte_pktmbuf_mtod_offset(mbuf, uint8_t *, at) : 0;
            struct pending *own = &pending[mbuf->hash.rss % workers];
            own->mbufs[own->count++] = mbuf;
            if (own->count == BURST)
                flush(self.all[mbuf->hash.rss % workers].ring, own);
        }
        self.poll_cycles += polled - start;
        self.enqueue_cycles += rte_rdtsc() - polled;
    }
    __atomic_store_n(&has_received_all, 1, __ATOMIC_RELEASE); /* the workers' load */
    return 0;
}

int rival_balance_worker(void *argument)
{
    struct worker *own = argument;
    for (;;) {
        struct rte_mbuf *mbufs[BURST];
        bool is_last = __atomic_load_n(&has_received_all, __ATOMIC_ACQUIRE) != 0;
        uint64_t start = rte_rdtsc();
        uint32_t count = rte_ring_sc_dequeue_burst(own->ring, (void **)mbufs, BURST, NULL);
        if (count == 0) {
            if (is_last)
                return 0;
            give_way();
            continue;
        }
        for (uint32_t index = 0; index < count; index++)
            own->bytes += mbufs[index]->pkt_len;
        own->packets += count;
        rte_pktmbuf_free_bulk(mbufs, count);
        own->busy_cycles += rte_rdtsc() - start;
    }
}

static void report(void)
{
    struct rte_eth_stats stats;
    memset(&stats, 0, sizeof(stats));
    rte_eth_stats_get(self.device.port, &stats);
    double hz = (double)rte_get_tsc_hz();
    uint64_t busy = 0;
    printf("{\"received\":%" PRIu64 ",\"workers\":[", self.received);
    for (uint32_t worker = 0; worker < self.workers; worker++) {
        const struct worker *own = &self.all[worker];
        printf("%s{\"packets\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", worker == 0 ? "" : ",",
               own->packets, own->bytes);
        busy += own->busy_cycles;
    }
    printf("],\"lost\":{\"ring_full\":%" PRIu64 ",\"rx_missed\":%" PRIu64
           ",\"rx_errors\":%" PRIu64 ",\"rx_nombuf\":%" PRIu64 "}",
           self.ring_full, stats.imissed, stats.ierrors, stats.rx_nombuf);
    printf(",\"busy_s\":{\"poll\":%.6f,\"enqueue\":%.6f,\"worker\":%.6f}}\n",
           self.poll_cycles / hz, self.enqueue_cycles / hz, busy / hz);
    fflush(stdout);
}

static int fail(const char *what, int code)
{
    fprintf(stderr, "%s: %d\n", what, code);
    return EXIT_FAILURE;
}

/* Pool, rings and device on the receive lcore's node. */
static int prepare(unsigned receiver, const char *device)
{
    int node = (int)rte_lcore_to_socket_id(receiver);
    self.pool =
        rte_pktmbuf_pool_create("pool", OBJECTS, CACHE, 0, RTE_MBUF_DEFAULT_BUF_SIZE, node);
    if (self.pool == NULL)
        return fail("no memory for the mbuf pool", -1);
    for (uint32_t worker = 0; worker < self.workers; worker++) {
        char name[RTE_RING_NAMESIZE];
        snprintf(name, sizeof(name), "worker-%u", worker);
        self.all[worker].ring = rte_ring_create(name, SLOTS, node, RING_F_SP_ENQ | RING_F_SC_DEQ);
        if (self.all[worker].ring == NULL)
            return fail("no memory for a ring", -1);
    }
    int done = rival_device_open(&self.device, self.pool, device);
    return done == 0 ? 0 : fail(device, done);
}

int rival_balance_main(int count, char **arguments)
{
    int own = rte_eal_init(count, arguments);
    if (own < 0)
        return fail("EAL does not start", own);
    const char *device = NULL;
    self.byte = 30;
    for (int at = own + 1; at < count; at++) {
        if (strcmp(arguments[at], "--share") == 0)
            self.is_shared = true;
        else if (strcmp(arguments[at], "--device") == 0 && at + 1 < count)
            device = arguments[++at];
        else if (strcmp(arguments[at], "--byte") == 0 && at + 1 < count)
            self.byte = (uint32_t)strtoul(arguments[++at], NULL, 10);
        else
            return fail(arguments[at], -1);
    }
    unsigned receiver = rte_get_next_lcore(-1, 1, 0);
    self.workers = rte_lcore_count() - 2;
    if (device == NULL || self.byte == 0 || rte_lcore_count() < 3 || self.workers > WORKERS_MAX)
        return fail("expected --device, --byte from 1, and 3 to 66 lcores", -1);
    if (prepare(receiver, device) != 0)
        return EXIT_FAILURE;
    signal(SIGINT, end);
    signal(SIGTERM, end);
    unsigned lcore;
    uint32_t worker = 0;
    RTE_LCORE_FOREACH_WORKER(lcore)
    {
        if (lcore != receiver)
            rte_eal_remote_launch(rival_balance_worker, &self.all[worker++], lcore);
    }
    rte_eal_remote_launch(rival_balance_receive, NULL, receiver);
    printf("ready: %u workers\n", self.workers);
    fflush(stdout);
    while (!is_over)
        usleep(10000);
    rte_eal_mp_wait_lcore();
    report();
    rival_device_close(&self.device);
    rte_eal_cleanup();
    return EXIT_SUCCESS;
}
