/* A device that a rival receives from, on one queue. */
#include "rivals.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_ethdev.h>

/* The mbufs that net_af_xdp keeps ready in its fill ring (ETH_AF_XDP_DFLT_NUM_DESCS). */
#define RX_SLOTS 2048

/* The libraries below net_af_xdp log their attempts to standard error. */
static int mute(void)
{
    int stream = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (stream >= 0 && nowhere >= 0)
        dup2(nowhere, STDERR_FILENO);
    if (nowhere >= 0)
        close(nowhere);
    return stream;
}

static void unmute(int stream)
{
    if (stream < 0)
        return;
    dup2(stream, STDERR_FILENO);
    close(stream);
}

static int open_device(struct rival_device *device, struct rte_mempool *pool, const char *devargs)
{
    char name[64];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(devargs, ","), devargs);
    int done = rte_dev_probe(devargs);
    if (done == 0)
        done = rte_eth_dev_get_port_by_name(name, &device->port);
    if (done != 0)
        return done;
    device->is_open = true;
    struct rte_eth_conf conf;
    memset(&conf, 0, sizeof(conf));
    /* Nothing is sent, but net_af_xdp only has queues in pairs. */
    done = rte_eth_dev_configure(device->port, 1, 1, &conf);
    if (done == 0)
        done = rte_eth_rx_queue_setup(device->port, 0, RX_SLOTS, SOCKET_ID_ANY, NULL, pool);
    if (done == 0)
        done = rte_eth_tx_queue_setup(device->port, 0, 1024, SOCKET_ID_ANY, NULL);
    return done == 0 ? rte_eth_dev_start(device->port) : done;
}

int rival_device_open(struct rival_device *device, struct rte_mempool *pool, const char *devargs)
{
    int stream = mute();
    int done = open_device(device, pool, devargs);
    unmute(stream);
    return done;
}

void rival_device_close(struct rival_device *device)
{
    if (!device->is_open)
        return;
    int stream = mute();
    struct rte_eth_dev_info info;
    rte_eth_dev_info_get(device->port, &info);
    rte_eth_dev_stop(device->port);
    rte_eth_dev_close(device->port);
    rte_dev_remove(info.device);
    unmute(stream);
}
