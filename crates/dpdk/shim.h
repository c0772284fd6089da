/*
 * The DPDK calls that Rust needs: most of DPDK's data path is inline functions, which have no
 * symbol to link with. src/ffi.rs declares the same; change both together.
 *
 * A function that can fail returns 0 or a negative errno. Strings end with a 0.
 */
#ifndef BURSTLINE_DPDK_SHIM_H
#define BURSTLINE_DPDK_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rte_mbuf;
struct rte_mempool;

/* A received packet's first segment. */
struct shim_packet {
    const uint8_t *data;
    uint32_t length;
    uint32_t marks;
    uint64_t time; /* as the device reports it; with SHIM_TIMED */
    uint32_t hash; /* with SHIM_HASHED */
};

enum {
    SHIM_CHAINED = 1,          /* length is of all segments, data of the first */
    SHIM_PARTIAL_CHECKSUM = 2, /* the transport checksum is left to a device */
    SHIM_MERGED = 4,           /* LRO: several wire packets merged into one */
    SHIM_BAD_CHECKSUM = 8,     /* the device found a wrong IP or transport checksum */
    SHIM_TIMED = 16,
    SHIM_HASHED = 32, /* TCP or UDP; the hash covers addresses and ports */
};

/* Summary of all packets of a call. */
struct shim_batch {
    uint64_t lowest;  /* address of the first byte of the lowest first segment */
    uint64_t highest; /* address behind the last byte of the highest one */
    uint32_t marks;   /* of all packets, or-ed */
};

/* A pool, and the address range of its mbufs. */
struct shim_home {
    struct rte_mempool *pool;
    uint64_t start;
    uint64_t end;
};

/* An entry of a worklist: crates/log/src/desc.rs. */
struct shim_desc {
    uint64_t place;
    uint64_t flow;
};

/* Bits of checksums that a device checks. */
enum { SHIM_SUM_IP = 1, SHIM_SUM_UDP = 2, SHIM_SUM_TCP = 4 };

struct shim_device {
    uint16_t port;
    uint16_t rx_queues_max;
    uint16_t tx_queues_max;
    uint16_t mtu_max;
    uint16_t mtu;
    uint16_t rx_ring;
    uint16_t tx_ring;
    int32_t node;
    uint32_t interface;
    uint8_t is_pci;
    uint8_t checksums; /* that it can check */
    uint8_t has_scatter;
    uint8_t has_segments;
    char driver[32];
};

/* Hash functions: the bits of `functions`. */
enum {
    SHIM_RSS_IP = 1,  /* addresses of some packets that are neither TCP nor UDP */
    SHIM_RSS_TCP = 2, /* addresses and ports of TCP, IPv4 and IPv6 */
    SHIM_RSS_UDP = 4,
};

enum { SHIM_KEY_MOST = 128 };

struct shim_rss {
    uint32_t functions;
    uint8_t key_bytes;
    uint8_t key[SHIM_KEY_MOST];
};

/* Offloads that a device offers. */
struct shim_offers {
    uint32_t rss;
    uint8_t key_bytes;
    uint8_t has_hash;
    uint8_t has_times;
};

struct shim_plan {
    uint16_t queues;
    uint16_t mtu;      /* 0: the device's own */
    uint8_t checksum;
    uint8_t scatter;
    uint8_t rss;
    uint8_t hash;      /* report each packet's hash */
    uint8_t times;
    int32_t node;
    const struct shim_rss *keyed; /* NULL: the driver's key */
};

struct shim_counts {
    uint64_t ipackets, opackets, ibytes, obytes, imissed, ierrors, oerrors, rx_nombuf;
    uint64_t q_ipackets[16], q_opackets[16];
};

/* Both strings are static; EAL need not run. */
const char *shim_version(void);
const char *shim_drivers_folder(void);

int shim_log_start(void);
size_t shim_log_take(char *text, size_t room);
int shim_eal_init(int count, char **arguments, int signal);
int shim_enter_network(int descriptor);

int shim_probe(const char *devargs, struct shim_device *device);
int shim_configure(struct shim_device *device, const struct shim_plan *plan);
int shim_start(const struct shim_device *device, const struct shim_plan *plan,
               struct rte_mempool *pool);
int shim_offers(uint16_t port, struct shim_offers *offers);
/* Stores the key permanently: drivers read their configuration again when they start. */
uint8_t *shim_rss_keep(uint16_t port, const struct shim_rss *rss);
/* Reads the driver's functions and key; -ENOTSUP if unsupported. `key_bytes` is an input. */
int shim_rss_told(uint16_t port, struct shim_rss *rss);
/* Sets another key. */
int shim_rss_change(uint16_t port, const struct shim_rss *rss);
/* Finds the timestamp field; before this call no packet has a time. */
int shim_times_start(void);
void shim_close(uint16_t port, uint16_t queues);
int shim_counts(uint16_t port, struct shim_counts *counts);
/* Packets sent on a queue, by the driver's count; UINT64_MAX if it has no count. */
uint64_t shim_sent_by(uint16_t port, uint16_t queue);
size_t shim_xstats(uint16_t port, char *text, size_t room);
int shim_link(uint16_t port);
/* Whether it was unplugged, or has lost its interface, if it has one: the socket's network
 * namespace is searched for it. */
bool shim_is_gone(uint16_t port, uint32_t interface, int socket);
uint32_t shim_waiting(uint16_t port, uint16_t queue);
void shim_reclaim(uint16_t port, uint16_t queue);
/* Packets in a send queue that the other end has not taken yet; 0 also if that is unknown. The
 * caller sends no packet on this queue meanwhile. */
uint32_t shim_untaken(uint16_t port, uint16_t queue);

struct rte_mempool *shim_pool(const char *name, uint32_t mbufs, uint32_t cache, uint16_t room,
                              int32_t node, bool is_staggered);
void shim_pool_free(struct rte_mempool *pool);
uint32_t shim_pool_missing(const struct rte_mempool *pool);
void shim_pool_home(struct rte_mempool *pool, struct shim_home *home);

int shim_thread_enter(void);
void shim_thread_leave(void);

uint16_t shim_take(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t most);
void shim_look(struct rte_mbuf *const *mbufs, uint32_t count, struct shim_packet *packets,
               struct shim_batch *batch);
/* Writes `count` descs, the first packet's last. Returns true if all are whole, in `home`,
 * unmarked, and may be freed by shim_free_plain; otherwise the descs are invalid. */
bool shim_describe(struct rte_mbuf *const *mbufs, uint32_t count, const struct shim_home *home,
                   uint32_t interface, struct shim_desc *descs);
/* A device's information on a packet besides its bytes; used only by shim_look in shim.c. */
struct shim_told {
    uint64_t time;
    uint32_t hash;
    uint32_t marks;
};
struct shim_told shim_told(const struct rte_mbuf *mbuf);
uint16_t shim_send(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);
/* Like shim_send; also returns the bytes of the sent packets. */
uint16_t shim_forward(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count,
                      uint64_t *bytes);
void shim_free(struct rte_mbuf **mbufs, uint32_t count);
void shim_free_plain(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint32_t count);
uint32_t shim_first_length(const struct rte_mbuf *mbuf);
uint32_t shim_read(const struct rte_mbuf *mbuf, uint8_t *bytes, uint32_t room);
bool shim_allocate(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint32_t count);
bool shim_write(struct rte_mempool *pool, struct rte_mbuf *mbuf, const uint8_t *bytes,
                uint32_t length);

#endif
