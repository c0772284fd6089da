/* SPDX-License-Identifier: GPL-2.0-only
 *
 * The module burst for LibDAQ 2.0: packets are given to a function of the host's, one after the
 * other, and what it returns is the verdict. See burst_core.h. */
#include <daq_api.h>

#include "burst_daq.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODULE_VERSION 1

struct instance {
    struct burst_core *core;
    struct burst_packet packet;
    DAQ_Stats_t stats; /* verdicts; the rest is the core's */
    DAQ_State state;
};

/* What the host says, as settings. */
static bool read_config(const DAQ_Config_t *config, struct burst_settings *settings, char *error) {
    burst_settings_init(settings);
    settings->is_inline = config->mode == DAQ_MODE_INLINE;
    settings->snaplen = config->snaplen > 0 ? (uint32_t)config->snaplen : 0;
    settings->timeout_ms = config->timeout;
    if (!burst_settings_name(settings, config->name, error))
        return false;
    for (const struct _daq_dict_entry *entry = config->values; entry; entry = entry->next) {
        if (!burst_settings_variable(settings, entry->key, entry->value, error))
            return false;
    }
    return true;
}

static int burst_initialize(const DAQ_Config_t *config, void **context, char *errbuf, size_t len) {
    struct burst_settings settings;
    char error[BURST_ERROR_BYTES];
    struct instance *instance = NULL;
    if (read_config(config, &settings, error)) {
        instance = calloc(1, sizeof *instance);
        snprintf(error, sizeof error, "out of memory");
    }
    if (instance != NULL)
        instance->core = burst_new(&settings);
    if (instance == NULL || instance->core == NULL) {
        free(instance);
        snprintf(errbuf, len, "burst: %s", error);
        return DAQ_ERROR;
    }
    instance->state = DAQ_STATE_INITIALIZED;
    *context = instance;
    return DAQ_SUCCESS;
}

static int not_supported(struct instance *instance, const char *text) {
    snprintf(burst_error(instance->core), BURST_ERROR_BYTES, "burst: %s", text);
    return DAQ_ERROR_NOTSUP;
}

static int burst_filter(void *handle, const char *filter) {
    return burst_set_filter(((struct instance *)handle)->core, filter) ? DAQ_SUCCESS : DAQ_ERROR;
}

static int burst_begin(void *handle) {
    struct instance *instance = handle;
    if (!burst_start(instance->core))
        return DAQ_ERROR;
    instance->state = DAQ_STATE_STARTED;
    return DAQ_SUCCESS;
}

static DAQ_PktHdr_t header_of(const struct instance *instance) {
    const struct burst_packet *packet = &instance->packet;
    DAQ_PktHdr_t header;
    memset(&header, 0, sizeof header);
    header.ts = burst_time_of(packet);
    header.caplen = packet->length;
    header.pktlen = packet->wire_length;
    header.ingress_index = (int32_t)packet->port;
    header.egress_index = DAQ_PKTHDR_UNKNOWN;
    header.ingress_group = header.egress_group = DAQ_PKTHDR_UNKNOWN;
    if (!burst_settings_of(instance->core)->is_inline)
        header.flags = DAQ_PKT_FLAG_NOT_FORWARDING;
    return header;
}

static int burst_acquire(void *handle, int count, DAQ_Analysis_Func_t callback,
                         DAQ_Meta_Func_t metaback, void *user) {
    struct instance *instance = handle;
    (void)metaback;
    for (int taken = 0; count <= 0 || taken < count; taken++) {
        switch (burst_take(instance->core, true, &instance->packet)) {
        case BURST_TAKEN:
            break;
        case BURST_NONE:
        case BURST_INTERRUPTED:
            return DAQ_SUCCESS;
        case BURST_OVER:
            return DAQ_READFILE_EOF;
        default:
            return DAQ_ERROR;
        }
        const DAQ_PktHdr_t header = header_of(instance);
        const DAQ_Verdict verdict = callback(user, &header, instance->packet.bytes);
        burst_judge(instance->core, &instance->packet, verdict, instance->stats.verdicts);
    }
    return DAQ_SUCCESS;
}

static int burst_inject(void *handle, const DAQ_PktHdr_t *header, const uint8_t *bytes,
                        uint32_t length, int reverse) {
    (void)header, (void)bytes, (void)length, (void)reverse;
    return not_supported(handle, "injection: a reader of a log decides about its packets, and "
                                 "cannot add others; the variable reject answers a sender");
}

static int burst_breakloop(void *handle) {
    burst_interrupt(((struct instance *)handle)->core);
    return DAQ_SUCCESS;
}

static int burst_end(void *handle) {
    struct instance *instance = handle;
    burst_stop(instance->core);
    instance->state = DAQ_STATE_STOPPED;
    return DAQ_SUCCESS;
}

static void burst_shutdown(void *handle) {
    struct instance *instance = handle;
    burst_free(instance->core);
    burst_forget(&instance->packet);
    free(instance);
}

static DAQ_State burst_check_status(void *handle) { return ((struct instance *)handle)->state; }

static int burst_get_stats(void *handle, DAQ_Stats_t *stats) {
    struct instance *instance = handle;
    *stats = instance->stats;
    burst_fill_stats(instance->core, stats);
    return DAQ_SUCCESS;
}

static void burst_reset_stats(void *handle) {
    struct instance *instance = handle;
    burst_reset(instance->core);
    memset(&instance->stats, 0, sizeof instance->stats);
}

static int burst_get_snaplen(void *handle) {
    return (int)burst_settings_of(((struct instance *)handle)->core)->snaplen;
}

static uint32_t burst_get_capabilities(void *handle) {
    if (!burst_settings_of(((struct instance *)handle)->core)->is_inline)
        return DAQ_CAPA_BREAKLOOP | DAQ_CAPA_BPF;
    return DAQ_CAPA_BREAKLOOP | DAQ_CAPA_BPF | DAQ_CAPA_BLOCK | DAQ_CAPA_REPLACE | DAQ_CAPA_WHITELIST;
}

static int burst_get_datalink_type(void *handle) {
    return burst_datalink(((struct instance *)handle)->core);
}

static const char *burst_get_errbuf(void *handle) {
    return burst_error(((struct instance *)handle)->core);
}

static void burst_set_errbuf(void *handle, const char *text) {
    if (text != NULL)
        snprintf(burst_error(((struct instance *)handle)->core), BURST_ERROR_BYTES, "%s", text);
}

static int burst_get_device_index(void *handle, const char *device) {
    (void)device;
    return not_supported(handle, "a log's interfaces have no indexes");
}

/* What LibDAQ checks before it calls is left out. */
__attribute__((visibility("default"))) DAQ_Module_t DAQ_MODULE_DATA = {
    .api_version = DAQ_API_VERSION,
    .module_version = MODULE_VERSION,
    .name = "burst",
    .type = DAQ_TYPE_INTF_CAPABLE | DAQ_TYPE_INLINE_CAPABLE | DAQ_TYPE_MULTI_INSTANCE,
    .initialize = burst_initialize,
    .set_filter = burst_filter,
    .start = burst_begin,
    .acquire = burst_acquire,
    .inject = burst_inject,
    .breakloop = burst_breakloop,
    .stop = burst_end,
    .shutdown = burst_shutdown,
    .check_status = burst_check_status,
    .get_stats = burst_get_stats,
    .reset_stats = burst_reset_stats,
    .get_snaplen = burst_get_snaplen,
    .get_capabilities = burst_get_capabilities,
    .get_datalink_type = burst_get_datalink_type,
    .get_errbuf = burst_get_errbuf,
    .set_errbuf = burst_set_errbuf,
    .get_device_index = burst_get_device_index,
};
