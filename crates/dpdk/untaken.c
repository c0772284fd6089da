/*
 * Packets in a send queue that the other end has not taken yet.
 *
 * Drivers over shared memory count a packet as sent when it is in the ring. Packets still there
 * when the device is closed never arrive. No call of DPDK 22.11 reports how many that are:
 * rte_eth_tx_descriptor_status does not work for these drivers. Mbufs do not show it either: most
 * drivers free sent mbufs only when they send again. So we inspect the rings themselves, which
 * these drivers allocate from EAL's named memory. */
#include "shim.h"

#include <stdio.h>
#include <string.h>

#include <rte_common.h>
#include <rte_ethdev.h>
#include <rte_memzone.h>
#include <rte_ring.h>

/* Source: eth_dev_ring_create, drivers/net/ring/rte_eth_ring.c. */
static uint32_t in_ring(uint16_t port, uint16_t queue)
{
    char device[RTE_ETH_NAME_MAX_LEN], name[RTE_RING_NAMESIZE];
    if (rte_eth_dev_get_name_by_port(port, device) != 0)
        return 0;
    int length = snprintf(name, sizeof(name), "ETH_RXTX%u_%s", queue, device);
    if (length < 0 || length >= (int)sizeof(name))
        return 0;
    const struct rte_ring *ring = rte_ring_lookup(name);
    return ring != NULL ? rte_ring_count(ring) : 0;
}

static uint16_t index_at(const struct rte_memzone *zone, size_t offset)
{
    const uint16_t *index = RTE_PTR_ADD(zone->addr, offset);
    return __atomic_load_n(index, __ATOMIC_ACQUIRE); /* the device's store of used.idx */
}

/* A split ring: n descriptors of 16 bytes; flags and index of the driver, and 2 bytes for each
 * descriptor; from the next multiple of 4,096 on flags and index of the device, and 8 bytes each.
 * Its size follows only from the size of its memory. That it is a split ring follows from the index
 * of sent packets: packed rings are not supported here. Source: virtio 1.1, 2.6; vring_size,
 * drivers/net/virtio/virtio_ring.h; virtio_init_queue, drivers/net/virtio/virtio_ethdev.c. */
static uint32_t in_split_ring(uint16_t port, uint16_t queue, uint16_t sent)
{
    char name[RTE_MEMZONE_NAMESIZE];
    snprintf(name, sizeof(name), "port%u_vq%u", port, 2u * queue + 1);
    const struct rte_memzone *zone = rte_memzone_lookup(name);
    for (size_t entries = 32768; zone != NULL && entries > 0; entries /= 2) {
        size_t device = RTE_ALIGN_CEIL(18 * entries + 4, (size_t)4096);
        if (zone->len != RTE_ALIGN_CEIL(device + 4 + 8 * entries, (size_t)4096))
            continue;
        uint16_t given = index_at(zone, 16 * entries + 2), taken = index_at(zone, device + 2);
        uint16_t untaken = given - taken;
        if (given == sent && untaken <= entries)
            return untaken;
    }
    return 0;
}

uint32_t shim_untaken(uint16_t port, uint16_t queue)
{
    struct rte_eth_dev_info info;
    if (rte_eth_dev_info_get(port, &info) != 0 || info.driver_name == NULL)
        return 0;
    if (strcmp(info.driver_name, "net_ring") == 0)
        return in_ring(port, queue);
    /* net_virtio is a card, net_virtio_user the same without one. */
    if (strncmp(info.driver_name, "net_virtio", strlen("net_virtio")) != 0)
        return 0;
    uint64_t sent = shim_sent_by(port, queue);
    return sent == UINT64_MAX ? 0 : in_split_ring(port, queue, sent);
}
