/*
 * Offloads of a device: see shim.h and src/offloads.rs.
 */
#include "shim.h"

#include <errno.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <rte_mbuf_ptype.h>

/* ---- Receive-side scaling. ---- */

static const uint64_t TCP = RTE_ETH_RSS_NONFRAG_IPV4_TCP | RTE_ETH_RSS_NONFRAG_IPV6_TCP;
static const uint64_t UDP = RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP;

static uint32_t functions_of(uint64_t hashed)
{
    return ((hashed & RTE_ETH_RSS_IP) != 0 ? SHIM_RSS_IP : 0) |
        ((hashed & TCP) == TCP ? SHIM_RSS_TCP : 0) | ((hashed & UDP) == UDP ? SHIM_RSS_UDP : 0);
}

int shim_offers(uint16_t port, struct shim_offers *offers)
{
    struct rte_eth_dev_info info;
    int done = rte_eth_dev_info_get(port, &info);
    if (done != 0)
        return done;
    *offers = (struct shim_offers){
        .rss = functions_of(info.flow_type_rss_offloads),
        /* Drivers that report no size take the 40 bytes of rte_eth_rss_conf. */
        .key_bytes = info.hash_key_size != 0 ? info.hash_key_size : 40,
        .has_hash = (info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_RSS_HASH) != 0,
        .has_times = (info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP) != 0,
    };
    return 0;
}

uint8_t *shim_rss_keep(uint16_t port, const struct shim_rss *rss)
{
    static struct shim_rss kept[RTE_MAX_ETHPORTS];
    kept[port] = *rss;
    return kept[port].key;
}

int shim_rss_told(uint16_t port, struct shim_rss *rss)
{
    struct rte_eth_rss_conf conf = {.rss_key = rss->key, .rss_key_len = rss->key_bytes};
    memset(rss->key, 0, sizeof(rss->key));
    int done = rte_eth_dev_rss_hash_conf_get(port, &conf);
    if (done == 0)
        rss->functions = functions_of(conf.rss_hf);
    return done;
}

int shim_rss_change(uint16_t port, const struct shim_rss *rss)
{
    uint8_t key[SHIM_KEY_MOST];
    struct rte_eth_rss_conf conf = {.rss_key = NULL};
    int done = rte_eth_dev_rss_hash_conf_get(port, &conf);
    if (done != 0)
        return done;
    memcpy(key, rss->key, sizeof(key));
    conf.rss_key = key;
    conf.rss_key_len = rss->key_bytes;
    return rte_eth_dev_rss_hash_update(port, &conf);
}

/* Whether the hash covers addresses and ports, as Microsoft defines it. For fragments, for
 * protocols other than TCP and UDP, and inside tunnels, devices hash other fields. */
static bool is_hashed(const struct rte_mbuf *mbuf)
{
    uint32_t transport = mbuf->packet_type & RTE_PTYPE_L4_MASK;
    return (mbuf->ol_flags & RTE_MBUF_F_RX_RSS_HASH) != 0 &&
        (transport == RTE_PTYPE_L4_TCP || transport == RTE_PTYPE_L4_UDP) &&
        !RTE_ETH_IS_TUNNEL_PKT(mbuf->packet_type);
}

/* ---- Times. ---- */

/* Their offset in an mbuf: the same for all devices, once a driver has registered the field. */
static int time_offset = -1;
static uint64_t time_flag;

int shim_times_start(void)
{
    int offset;
    uint64_t flag;
    if (rte_mbuf_dyn_rx_timestamp_register(&offset, &flag) != 0)
        return -rte_errno;
    /* The value never changes. Pairs with the load in shim_told. */
    __atomic_store_n(&time_offset, offset, __ATOMIC_RELAXED);
    __atomic_store_n(&time_flag, flag, __ATOMIC_RELEASE);
    return 0;
}

/* ---- Both, of one packet. ---- */

struct shim_told shim_told(const struct rte_mbuf *mbuf)
{
    struct shim_told told = {0};
    uint64_t timed = __atomic_load_n(&time_flag, __ATOMIC_ACQUIRE); /* shim_times_start */
    if ((mbuf->ol_flags & timed) != 0) {
        int offset = __atomic_load_n(&time_offset, __ATOMIC_RELAXED);
        told.time = *RTE_MBUF_DYNFIELD(mbuf, offset, const rte_mbuf_timestamp_t *);
        told.marks |= SHIM_TIMED;
    }
    if (is_hashed(mbuf)) {
        told.hash = mbuf->hash.rss;
        told.marks |= SHIM_HASHED;
    }
    return told;
}
