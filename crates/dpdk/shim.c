/* See shim.h. */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_build_config.h>
#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_version.h>

/* ---- DPDK's log: kept for our errors, never printed. ---- */

static struct {
    pthread_mutex_t lock;
    char text[8192];
    size_t length;
} said = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void keep(const char *text, size_t length)
{
    pthread_mutex_lock(&said.lock);
    size_t room = sizeof(said.text) - said.length;
    size_t kept = length < room ? length : room;
    memcpy(said.text + said.length, text, kept);
    said.length += kept;
    pthread_mutex_unlock(&said.lock);
}

static ssize_t write_log(void *cookie, const char *text, size_t length)
{
    (void)cookie;
    /* Warnings report the next attempt; the cause of a failure is an error. */
    if (rte_log_cur_msg_loglevel() <= (int)RTE_LOG_ERR)
        keep(text, length);
    return length;
}

int shim_log_start(void)
{
    cookie_io_functions_t functions = {.write = write_log};
    FILE *stream = fopencookie(NULL, "w", functions);
    if (stream == NULL)
        return -errno;
    setvbuf(stream, NULL, _IOLBF, 0);
    return rte_openlog_stream(stream);
}

size_t shim_log_take(char *text, size_t room)
{
    pthread_mutex_lock(&said.lock);
    size_t length = said.length < room ? said.length : room;
    memcpy(text, said.text, length);
    said.length = 0;
    pthread_mutex_unlock(&said.lock);
    return length;
}

/* Parts of EAL, and the libraries below some drivers, write directly to the standard streams. */
struct muted {
    int saved[2];
    int file;
};

static void mute_from(struct muted *muted, int first)
{
    fflush(NULL);
    muted->saved[0] = -1;
    muted->file = memfd_create("dpdk-says", MFD_CLOEXEC);
    for (int stream = first; stream < 2; stream++) {
        muted->saved[stream] = muted->file < 0 ? -1 : fcntl(stream + 1, F_DUPFD_CLOEXEC, 3);
        if (muted->saved[stream] >= 0)
            dup2(muted->file, stream + 1);
    }
}

static void mute(struct muted *muted)
{
    mute_from(muted, 0);
}

static void unmute(struct muted *muted)
{
    char text[2048];
    fflush(NULL);
    for (int stream = 0; stream < 2; stream++) {
        if (muted->saved[stream] >= 0) {
            dup2(muted->saved[stream], stream + 1);
            close(muted->saved[stream]);
        }
    }
    if (muted->file < 0)
        return;
    ssize_t length = pread(muted->file, text, sizeof(text), 0);
    if (length > 0)
        keep(text, length);
    close(muted->file);
}

const char *shim_version(void)
{
    return rte_version();
}

const char *shim_drivers_folder(void)
{
    return RTE_EAL_PMD_PATH;
}

/* ---- EAL. The caller is a dedicated thread: EAL pins it. ---- */

static bool removed[RTE_MAX_ETHPORTS];

static int on_removal(uint16_t port, enum rte_eth_event_type event, void *argument, void *more)
{
    (void)event, (void)argument, (void)more;
    __atomic_store_n(&removed[port], true, __ATOMIC_RELEASE);
    return 0;
}

/* `signal` reaches EAL's threads, too; 0 for none. */
int shim_eal_init(int count, char **arguments, int signal)
{
    /* EAL's threads inherit this mask: only the program's own threads get signals. */
    sigset_t signals;
    sigfillset(&signals);
    sigdelset(&signals, SIGBUS);
    sigdelset(&signals, SIGSEGV);
    sigdelset(&signals, SIGFPE);
    sigdelset(&signals, SIGILL);
    if (signal > 0)
        sigdelset(&signals, signal);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    struct muted muted;
    mute(&muted);
    rte_errno = 0;
    int done = rte_eal_init(count, arguments);
    int error = rte_errno;
    unmute(&muted);
    /* Nothing is shared by files, so their directory is not needed. */
    rmdir(rte_eal_get_runtime_dir());
    if (done < 0)
        return error != 0 ? -error : -EINVAL;
    rte_eth_dev_callback_register(RTE_ETH_ALL, RTE_ETH_EVENT_INTR_RMV, on_removal, NULL);
    return 0;
}

/* Drivers search for interfaces in the calling thread's network namespace. */
int shim_enter_network(int descriptor)
{
    struct stat wanted, own;
    if (fstat(descriptor, &wanted) != 0 || stat("/proc/thread-self/ns/net", &own) != 0)
        return -errno;
    if (wanted.st_ino == own.st_ino)
        return 0;
    return setns(descriptor, CLONE_NEWNET) == 0 ? 0 : -errno;
}

int shim_thread_enter(void)
{
    /* Mempools have caches only for threads with a number. */
    if (rte_lcore_id() != LCORE_ID_ANY)
        return 1;
    return rte_thread_register() == 0 ? 0 : -rte_errno;
}

void shim_thread_leave(void)
{
    rte_thread_unregister();
}

/* ---- Devices. ---- */

static bool is_pci(const struct rte_eth_dev_info *info)
{
    return info->device != NULL && strcmp(rte_bus_name(rte_dev_bus(info->device)), "pci") == 0;
}

static int find(const char *devargs, uint16_t *port)
{
    struct rte_devargs parsed;
    memset(&parsed, 0, sizeof(parsed));
    if (rte_devargs_parse(&parsed, devargs) != 0)
        return -EINVAL;
    int found = rte_eth_dev_get_port_by_name(parsed.name, port);
    rte_devargs_reset(&parsed);
    return found;
}

int shim_probe(const char *devargs, struct shim_device *device)
{
    struct rte_eth_dev_info info;
    struct muted muted;
    memset(device, 0, sizeof(*device));
    mute(&muted);
    int done = rte_dev_probe(devargs);
    if (done == 0)
        done = find(devargs, &device->port);
    if (done == 0)
        done = rte_eth_dev_info_get(device->port, &info);
    unmute(&muted);
    if (done != 0)
        return done;
    __atomic_store_n(&removed[device->port], false, __ATOMIC_RELEASE);
    device->rx_queues_max = info.max_rx_queues;
    device->tx_queues_max = info.max_tx_queues;
    device->mtu_max = info.max_mtu;
    device->node = rte_eth_dev_socket_id(device->port);
    device->interface = info.if_index;
    device->is_pci = is_pci(&info);
    uint64_t capable = info.rx_offload_capa;
    device->checksums = ((capable & RTE_ETH_RX_OFFLOAD_IPV4_CKSUM) != 0 ? SHIM_SUM_IP : 0) |
        ((capable & RTE_ETH_RX_OFFLOAD_UDP_CKSUM) != 0 ? SHIM_SUM_UDP : 0) |
        ((capable & RTE_ETH_RX_OFFLOAD_TCP_CKSUM) != 0 ? SHIM_SUM_TCP : 0);
    device->has_scatter = (info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER) != 0;
    device->has_segments = (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
    snprintf(device->driver, sizeof(device->driver), "%s", info.driver_name);
    return rte_eth_dev_get_mtu(device->port, &device->mtu);
}

/* Ring sizes are requested in `device` and returned there. */
int shim_configure(struct shim_device *device, const struct shim_plan *plan)
{
    struct rte_eth_dev_info info;
    int done = rte_eth_dev_info_get(device->port, &info);
    if (done != 0)
        return done;
    struct rte_eth_conf conf;
    memset(&conf, 0, sizeof(conf));
    if (plan->mtu != 0)
        conf.rxmode.mtu = plan->mtu;
    if (plan->checksum)
        conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_CHECKSUM & info.rx_offload_capa;
    if (plan->scatter)
        conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_SCATTER;
    if (device->has_segments)
        conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
    if (plan->times)
        conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_TIMESTAMP & info.rx_offload_capa;
    if (plan->rss) {
        uint64_t hashed = RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP;
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf = hashed & info.flow_type_rss_offloads;
        if (plan->hash)
            conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_RSS_HASH;
        if (plan->keyed != NULL) {
            conf.rx_adv_conf.rss_conf.rss_key = shim_rss_keep(device->port, plan->keyed);
            conf.rx_adv_conf.rss_conf.rss_key_len = plan->keyed->key_bytes;
        }
    }
    if (*info.dev_flags & RTE_ETH_DEV_INTR_RMV)
        conf.intr_conf.rmv = 1;
    struct muted muted;
    mute(&muted);
    uint16_t senders = plan->queues < info.max_tx_queues ? plan->queues : info.max_tx_queues;
    done = rte_eth_dev_configure(device->port, plan->queues, senders, &conf);
    if (done == 0)
        done = rte_eth_dev_adjust_nb_rx_tx_desc(device->port, &device->rx_ring, &device->tx_ring);
    if (done == 0 && plan->mtu != 0) {
        done = rte_eth_dev_set_mtu(device->port, plan->mtu);
        /* Drivers without this call keep their configuration. */
        if (done == -ENOTSUP)
            done = 0;
        if (done == 0)
            device->mtu = plan->mtu;
    }
    /* If the driver cannot reset them, the caller subtracts the earlier counts. */
    if (done == 0)
        rte_eth_stats_reset(device->port);
    unmute(&muted);
    return done;
}

static int set_up_queues(const struct shim_device *device, const struct shim_plan *plan,
                         struct rte_mempool *pool)
{
    struct rte_eth_dev_info info;
    int done = rte_eth_dev_info_get(device->port, &info);
    for (uint16_t queue = 0; done == 0 && queue < info.nb_rx_queues; queue++)
        done = rte_eth_rx_queue_setup(device->port, queue, device->rx_ring, plan->node, NULL, pool);
    for (uint16_t queue = 0; done == 0 && queue < info.nb_tx_queues; queue++)
        done = rte_eth_tx_queue_setup(device->port, queue, device->tx_ring, plan->node, NULL);
    return done;
}

int shim_start(const struct shim_device *device, const struct shim_plan *plan,
               struct rte_mempool *pool)
{
    struct muted muted;
    mute(&muted);
    int done = set_up_queues(device, plan, pool);
    if (done == 0)
        done = rte_eth_dev_start(device->port);
    if (done == 0)
        rte_eth_promiscuous_enable(device->port); /* Some lack this mode: they take all. */
    unmute(&muted);
    return done;
}

/* Frees packets still in the queues: some drivers leak them, and then the pool is never full. */
static void empty(uint16_t port, uint16_t queues)
{
    struct rte_mbuf *mbufs[32];
    struct rte_eth_dev_info info;
    if (rte_eth_dev_info_get(port, &info) != 0)
        return;
    for (uint16_t queue = 0; queue < queues && queue < info.nb_rx_queues; queue++) {
        for (int turn = 0; turn < 1024; turn++) {
            uint16_t count = rte_eth_rx_burst(port, queue, mbufs, RTE_DIM(mbufs));
            if (count == 0)
                break;
            rte_pktmbuf_free_bulk(mbufs, count);
        }
    }
    for (uint16_t queue = 0; queue < info.nb_tx_queues; queue++)
        rte_eth_tx_done_cleanup(port, queue, 0);
}

struct closing {
    uint16_t port;
    struct rte_device *device; /* NULL if unknown */
    sem_t done;
};

static void close_device(void *of)
{
    struct closing *closing = of;
    rte_eth_dev_stop(closing->port);
    rte_eth_dev_close(closing->port);
    if (closing->device != NULL)
        rte_dev_remove(closing->device);
    sem_post(&closing->done);
}

/* When the peer hangs up, net_memif closes the connection in DPDK's interrupt thread, without a
 * lock that close also takes (drivers/net/memif/memif_socket.c of 22.11, memif_disconnect). Two
 * ends that close at the same time free it twice. An alarm runs in that same thread, so the two are
 * serialised. Other drivers are closed here: they search for their interface in the network
 * namespace of the closing thread, and this thread has entered it. */
static bool is_closed_by_interrupts(const struct rte_eth_dev_info *info)
{
    return info->driver_name != NULL && strcmp(info->driver_name, "net_memif") == 0;
}

void shim_close(uint16_t port, uint16_t queues)
{
    struct rte_eth_dev_info info;
    bool is_known = rte_eth_dev_info_get(port, &info) == 0;
    struct closing closing = {.port = port, .device = is_known ? info.device : NULL};
    sem_init(&closing.done, 0, 0);
    struct muted muted;
    mute_from(&muted, 1); /* Standard output may be in use for a report now. */
    if (queues > 0)
        empty(port, queues);
    bool is_due = is_known && is_closed_by_interrupts(&info)
        && rte_eal_alarm_set(1, close_device, &closing) == 0;
    if (!is_due)
        close_device(&closing);
    while (sem_wait(&closing.done) != 0) {
        /* Interrupted by a signal. */
    }
    unmute(&muted);
    sem_destroy(&closing.done);
}

#if RTE_VERSION < RTE_VERSION_NUM(25, 11, 0, 0)

static void by_queue(uint16_t port, const struct rte_eth_stats *stats, struct shim_counts *counts)
{
    (void)port;
    for (size_t queue = 0; queue < RTE_DIM(counts->q_ipackets); queue++) {
        counts->q_ipackets[queue] = stats->q_ipackets[queue];
        counts->q_opackets[queue] = stats->q_opackets[queue];
    }
}

#else /* These counts are only among the extended ones. */

static uint64_t extended(uint16_t port, const char *of, size_t queue)
{
    const char *names[] = {"%s_q%zu_packets", "%s_q%zu_good_packets"}; /* ethdev's, virtio's */
    for (size_t form = 0; form < RTE_DIM(names); form++) {
        char name[RTE_ETH_XSTATS_NAME_SIZE];
        uint64_t id, value = 0;
        snprintf(name, sizeof(name), names[form], of, queue);
        if (rte_eth_xstats_get_id_by_name(port, name, &id) == 0 &&
            rte_eth_xstats_get_by_id(port, &id, &value, 1) == 1)
            return value;
    }
    return 0;
}

static void by_queue(uint16_t port, const struct rte_eth_stats *stats, struct shim_counts *counts)
{
    struct rte_eth_dev_info info;
    (void)stats;
    if (rte_eth_dev_info_get(port, &info) != 0)
        return;
    for (size_t queue = 0; queue < RTE_DIM(counts->q_ipackets); queue++) {
        if (queue < info.nb_rx_queues)
            counts->q_ipackets[queue] = extended(port, "rx", queue);
        if (queue < info.nb_tx_queues)
            counts->q_opackets[queue] = extended(port, "tx", queue);
    }
}

#endif

int shim_counts(uint16_t port, struct shim_counts *counts)
{
    struct rte_eth_stats stats;
    int done = rte_eth_stats_get(port, &stats);
    if (done != 0)
        return done;
    *counts = (struct shim_counts){
        .ipackets = stats.ipackets, .opackets = stats.opackets, .ibytes = stats.ibytes,
        .obytes = stats.obytes, .imissed = stats.imissed, .ierrors = stats.ierrors,
        .oerrors = stats.oerrors, .rx_nombuf = stats.rx_nombuf,
    };
    by_queue(port, &stats, counts);
    return 0;
}

uint64_t shim_sent_by(uint16_t port, uint16_t queue)
{
    struct shim_counts counts;
    bool is_counted = queue < RTE_DIM(counts.q_opackets) && shim_counts(port, &counts) == 0;
    return is_counted ? counts.q_opackets[queue] : UINT64_MAX;
}

/* "name=value" of each nonzero counter, separated by spaces; those that do not fit are left out. */
size_t shim_xstats(uint16_t port, char *text, size_t room)
{
    struct rte_eth_xstat values[256];
    struct rte_eth_xstat_name names[256];
    int count = rte_eth_xstats_get(port, values, RTE_DIM(values));
    if (count < 0 || count > (int)RTE_DIM(values) ||
        rte_eth_xstats_get_names(port, names, RTE_DIM(names)) != count)
        return 0;
    size_t used = 0;
    for (int index = 0; index < count; index++) {
        if (values[index].value == 0 || values[index].id >= (uint64_t)count)
            continue;
        int length = snprintf(text + used, room - used, "%s=%llu ", names[values[index].id].name,
                              (unsigned long long)values[index].value);
        if (length < 0 || used + length >= room)
            break;
        used += length;
    }
    return used;
}

int shim_link(uint16_t port)
{
    struct rte_eth_link link;
    int done = rte_eth_link_get_nowait(port, &link);
    return done != 0 ? done : link.link_status == RTE_ETH_LINK_UP;
}

bool shim_is_gone(uint16_t port, uint32_t interface, int socket)
{
    if (__atomic_load_n(&removed[port], __ATOMIC_ACQUIRE) || rte_eth_dev_is_removed(port) > 0)
        return true;
    struct ifreq request = {.ifr_ifindex = interface};
    return interface != 0 && ioctl(socket, SIOCGIFNAME, &request) != 0 && errno == ENODEV;
}

uint32_t shim_waiting(uint16_t port, uint16_t queue)
{
    int count = rte_eth_rx_queue_count(port, queue);
    return count > 0 ? count : 0;
}

void shim_reclaim(uint16_t port, uint16_t queue)
{
    rte_eth_tx_done_cleanup(port, queue, 0);
}

/* ---- Pools. ---- */

/* Extra bytes that make an mbuf one cache line longer than a page.
 *
 * In small pages no mbuf crosses a page if it fits, so each begins a page. All their headers then
 * share the same few sets of the first cache, which has room for 8 of a burst. An mbuf larger than
 * a page may cross it, and each mbuf begins a line further than the one before. It takes no more
 * memory: a page each either way. */
static uint16_t stagger(uint16_t room)
{
    size_t page = sysconf(_SC_PAGESIZE);
    size_t bytes = rte_mempool_calc_obj_size(sizeof(struct rte_mbuf) + room, 0, NULL);
    if (rte_eal_has_hugepages() || bytes > page || 2 * bytes <= page)
        return 0;
    return page + RTE_CACHE_LINE_SIZE - bytes;
}

struct rte_mempool *shim_pool(const char *name, uint32_t mbufs, uint32_t cache, uint16_t room,
                              int32_t node, bool is_staggered)
{
    uint16_t more = is_staggered ? stagger(room) : 0;
    return rte_pktmbuf_pool_create(name, mbufs, cache, more, room, node);
}

void shim_pool_free(struct rte_mempool *pool)
{
    rte_mempool_free(pool);
}

uint32_t shim_pool_missing(const struct rte_mempool *pool)
{
    return rte_mempool_in_use_count(pool);
}

static void widen(struct rte_mempool *pool, void *opaque, struct rte_mempool_memhdr *part,
                  unsigned index)
{
    struct shim_home *home = opaque;
    uint64_t start = (uintptr_t)part->addr, end = start + part->len;
    (void)pool, (void)index;
    home->start = start < home->start ? start : home->start;
    home->end = end > home->end ? end : home->end;
}

void shim_pool_home(struct rte_mempool *pool, struct shim_home *home)
{
    *home = (struct shim_home){pool, UINT64_MAX, 0};
    rte_mempool_mem_iter(pool, widen, home);
}

/* ---- Packets. ---- */

static uint32_t marks_of(const struct rte_mbuf *mbuf)
{
    uint64_t flags = mbuf->ol_flags;
    uint32_t marks = mbuf->nb_segs > 1 ? SHIM_CHAINED : 0;
    if (flags == 0)
        return marks;
    uint64_t transport = flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
    if (transport == RTE_MBUF_F_RX_L4_CKSUM_NONE)
        marks |= SHIM_PARTIAL_CHECKSUM;
    if (transport == RTE_MBUF_F_RX_L4_CKSUM_BAD ||
        (flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) == RTE_MBUF_F_RX_IP_CKSUM_BAD)
        marks |= SHIM_BAD_CHECKSUM;
    if (flags & RTE_MBUF_F_RX_LRO)
        marks |= SHIM_MERGED;
    return marks;
}

uint16_t shim_take(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t most)
{
    return rte_eth_rx_burst(port, queue, mbufs, most);
}

void shim_look(struct rte_mbuf *const *mbufs, uint32_t count, struct shim_packet *packets,
               struct shim_batch *batch)
{
    uint64_t lowest = UINT64_MAX, highest = 0;
    uint32_t marks = 0;
    for (uint32_t index = 0; index < count; index++) {
        const struct rte_mbuf *mbuf = mbufs[index];
        const uint8_t *data = rte_pktmbuf_mtod(mbuf, const uint8_t *);
        uint64_t start = (uintptr_t)data, end = start + mbuf->data_len;
        struct shim_packet packet = {data, mbuf->pkt_len, marks_of(mbuf), 0, 0};
        if (mbuf->ol_flags != 0) {
            struct shim_told told = shim_told(mbuf);
            packet.marks |= told.marks;
            packet.time = told.time;
            packet.hash = told.hash;
        }
        packets[index] = packet;
        marks |= packet.marks;
        lowest = start < lowest ? start : lowest;
        highest = end > highest ? end : highest;
    }
    *batch = (struct shim_batch){lowest, highest, marks};
}

/* Flags of mbufs that a desc alone cannot describe, or that cannot be freed unchanged. */
#define NOT_PLAIN                                                                                  \
    (RTE_MBUF_F_RX_L4_CKSUM_BAD | RTE_MBUF_F_RX_IP_CKSUM_BAD | RTE_MBUF_F_RX_LRO |                 \
     RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL)

/* One pass without a branch per packet: irregularities of all packets are or-ed together. It reads
 * only an mbuf's first cache line, which the driver has just written. */
bool shim_describe(struct rte_mbuf *const *mbufs, uint32_t count, const struct shim_home *home,
                   uint32_t interface, struct shim_desc *descs)
{
    /* Offset in the low half; above it interface and, 13 bits higher, length: crates/log, desc. */
    const uint64_t constant = ((uint64_t)interface << 32) - home->start;
    uint64_t odd = 0, flags = 0;
    uint32_t lengths = 0;
    struct shim_desc *desc = descs + count;
    for (uint32_t index = 0; index < count; index++) {
        const struct rte_mbuf *mbuf = mbufs[index];
        uint64_t length = mbuf->pkt_len;
        odd |= (uint64_t)(rte_mbuf_refcnt_read(mbuf) ^ 1) | (uint64_t)(mbuf->nb_segs ^ 1);
        odd |= (uintptr_t)mbuf->pool ^ (uintptr_t)home->pool;
        flags |= mbuf->ol_flags;
        lengths |= length;
        desc--;
        desc->place = (uintptr_t)mbuf->buf_addr + mbuf->data_off + constant + (length << 45);
        desc->flow = 0;
    }
    return odd == 0 && (flags & NOT_PLAIN) == 0 && lengths < 1 << 19;
}

uint16_t shim_send(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
    return rte_eth_tx_burst(port, queue, mbufs, count);
}

void shim_free(struct rte_mbuf **mbufs, uint32_t count)
{
    rte_pktmbuf_free_bulk(mbufs, count);
}

/* Frees mbufs in bulk that rte_mbuf_raw_free accepts: one reference, one segment, no attachment. */
void shim_free_plain(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint32_t count)
{
    rte_mempool_put_bulk(pool, (void **)mbufs, count);
}

/* Four sums, so that no addition waits for the previous load. */
static uint64_t bytes_of(struct rte_mbuf *const *mbufs, uint32_t count)
{
    uint64_t a = 0, b = 0, c = 0, d = 0;
    struct rte_mbuf *const *end = mbufs + count;
    for (; mbufs + 4 <= end; mbufs += 4) {
        a += mbufs[0]->pkt_len;
        b += mbufs[1]->pkt_len;
        c += mbufs[2]->pkt_len;
        d += mbufs[3]->pkt_len;
    }
    for (; mbufs < end; mbufs++)
        a += mbufs[0]->pkt_len;
    return a + b + c + d;
}

uint16_t shim_forward(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count,
                      uint64_t *bytes)
{
    /* Sent mbufs may be freed immediately. */
    uint64_t all = bytes_of(mbufs, count);
    uint16_t sent = rte_eth_tx_burst(port, queue, mbufs, count);
    *bytes = sent >= count ? all : all - bytes_of(mbufs + sent, count - sent);
    return sent;
}

uint32_t shim_first_length(const struct rte_mbuf *mbuf)
{
    return mbuf->data_len;
}

uint32_t shim_read(const struct rte_mbuf *mbuf, uint8_t *bytes, uint32_t room)
{
    uint32_t read = 0;
    for (; mbuf != NULL && read < room; mbuf = mbuf->next) {
        uint32_t length = mbuf->data_len < room - read ? mbuf->data_len : room - read;
        memcpy(bytes + read, rte_pktmbuf_mtod(mbuf, const uint8_t *), length);
        read += length;
    }
    return read;
}

bool shim_allocate(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint32_t count)
{
    return rte_pktmbuf_alloc_bulk(pool, mbufs, count) == 0;
}

/* Copies a packet into a fresh mbuf, and into more of them chained to it if one is too small.
 * Returns false if there are no more; freeing the mbuf then also frees the chained ones. */
bool shim_write(struct rte_mempool *pool, struct rte_mbuf *mbuf, const uint8_t *bytes,
                uint32_t length)
{
    struct rte_mbuf *last = mbuf;
    uint32_t written = 0;
    mbuf->pkt_len = length;
    for (;;) {
        uint32_t room = rte_pktmbuf_tailroom(last);
        uint32_t part = length - written < room ? length - written : room;
        memcpy(rte_pktmbuf_mtod(last, uint8_t *), bytes + written, part);
        last->data_len = part;
        written += part;
        if (written == length)
            return true;
        last->next = rte_pktmbuf_alloc(pool);
        if (last->next == NULL)
            return false;
        last = last->next;
        mbuf->nb_segs++;
    }
}
