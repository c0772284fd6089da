/* SPDX-License-Identifier: GPL-2.0-only
 *
 * The module burst for LibDAQ 3: the host receives packets as messages, and finalizes each with a
 * verdict, in any order. See burst_core.h.
 *
 * A message is one of the instance's pool. It is out from its receipt to its finalization; one that
 * is not out, or is of another pool, cannot be finalized. */
#include "daq3_interface.h"

#include "burst_daq.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODULE_VERSION 1
/* Messages of an instance, where the host does not say how many. */
#define POOL_MESSAGES 256
#define VARIABLES_MAX 16

struct message {
    DAQ_Msg_t daq;
    DAQ_PktHdr_t header;
    struct burst_packet packet;
    struct message *next; /* that is free */
    bool is_out;
};

struct instance {
    struct burst_core *core;
    DAQ_ModuleInstance_h module;
    struct message *pool;
    struct message *free;
    uint32_t size;
    uint32_t out;
    uint64_t verdicts[MAX_DAQ_VERDICT];
};

static DAQ_BaseAPI_t base;

static int burst_load(const DAQ_BaseAPI_t *api) {
    if (api->api_version != DAQ_BASE_API_VERSION || api->api_size != sizeof *api)
        return DAQ_ERROR;
    base = *api;
    return DAQ_SUCCESS;
}

static int burst_unload(void) {
    memset(&base, 0, sizeof base);
    return DAQ_SUCCESS;
}

static int burst_get_variable_descs(const DAQ_VariableDesc_t **descs) {
    static DAQ_VariableDesc_t variables[VARIABLES_MAX];
    unsigned count = 0;
    for (; count < burst_variables_count && count < VARIABLES_MAX; count++) {
        const struct burst_variable *variable = &burst_variables[count];
        variables[count].name = variable->name;
        variables[count].description = variable->description;
        variables[count].flags = variable->has_value ? DAQ_VAR_DESC_REQUIRES_ARGUMENT
                                                     : DAQ_VAR_DESC_FORBIDS_ARGUMENT;
    }
    *descs = variables;
    return (int)count;
}

/* What the host says, as settings. */
static bool read_config(DAQ_ModuleConfig_h config, struct burst_settings *settings, char *error) {
    const int snaplen = base.config_get_snaplen(config);
    const unsigned instances = base.config_get_total_instances(config);
    const unsigned id = base.config_get_instance_id(config); /* from 1; 0: not said */
    const char *key = NULL, *value = NULL; /* NULL after the last one */
    burst_settings_init(settings);
    settings->is_inline = base.config_get_mode(config) == DAQ_MODE_INLINE;
    settings->snaplen = snaplen > 0 ? (uint32_t)snaplen : 0;
    settings->timeout_ms = base.config_get_timeout(config);
    if (!burst_settings_name(settings, base.config_get_input(config), error))
        return false;
    base.config_first_variable(config, &key, &value);
    while (key != NULL) {
        if (!burst_settings_variable(settings, key, value, error))
            return false;
        base.config_next_variable(config, &key, &value);
    }
    if (id > 0 && id <= instances)
        burst_settings_share(settings, id - 1, instances);
    return true;
}

static bool make_pool(struct instance *instance, uint32_t size) {
    instance->pool = calloc(size, sizeof *instance->pool);
    if (instance->pool == NULL)
        return false;
    instance->size = size;
    for (uint32_t i = size; i-- > 0;) {
        struct message *message = &instance->pool[i];
        message->header.ingress_index = message->header.egress_index = DAQ_PKTHDR_UNKNOWN;
        message->header.ingress_group = message->header.egress_group = DAQ_PKTHDR_UNKNOWN;
        if (!burst_settings_of(instance->core)->is_inline)
            message->header.flags = DAQ_PKT_FLAG_NOT_FORWARDING;
        message->daq.type = DAQ_MSG_TYPE_PACKET;
        message->daq.hdr = &message->header;
        message->daq.hdr_len = sizeof message->header;
        message->daq.owner = instance->module;
        message->daq.priv = message;
        message->next = instance->free;
        instance->free = message;
    }
    return true;
}

static void burst_destroy(void *handle) {
    struct instance *instance = handle;
    if (instance->core != NULL)
        burst_free(instance->core);
    for (uint32_t i = 0; i < instance->size; i++)
        burst_forget(&instance->pool[i].packet);
    free(instance->pool);
    free(instance);
}

static int burst_instantiate(const DAQ_ModuleConfig_h config, DAQ_ModuleInstance_h module,
                             void **context) {
    struct burst_settings settings;
    char error[BURST_ERROR_BYTES];
    if (!read_config(config, &settings, error)) {
        base.set_errbuf(module, "burst: %s", error);
        return DAQ_ERROR_INVAL;
    }
    const unsigned size = base.config_get_msg_pool_size(config);
    struct instance *instance = calloc(1, sizeof *instance);
    if (instance != NULL) {
        instance->module = module;
        instance->core = burst_new(&settings);
    }
    if (instance == NULL || instance->core == NULL ||
        !make_pool(instance, size > 0 ? size : POOL_MESSAGES)) {
        if (instance != NULL)
            burst_destroy(instance);
        base.set_errbuf(module, "burst: out of memory");
        return DAQ_ERROR_NOMEM;
    }
    *context = instance;
    return DAQ_SUCCESS;
}

static int fail(struct instance *instance) {
    base.set_errbuf(instance->module, "burst: %s", burst_error(instance->core));
    return DAQ_ERROR;
}

static int burst_begin(void *handle) {
    struct instance *instance = handle;
    return burst_start(instance->core) ? DAQ_SUCCESS : fail(instance);
}

static int burst_filter(void *handle, const char *filter) {
    struct instance *instance = handle;
    return burst_set_filter(instance->core, filter) ? DAQ_SUCCESS : fail(instance);
}

static int burst_interrupt_receive(void *handle) {
    burst_interrupt(((struct instance *)handle)->core);
    return DAQ_SUCCESS;
}

static int burst_end(void *handle) {
    burst_stop(((struct instance *)handle)->core);
    return DAQ_SUCCESS;
}

static int burst_get_stats(void *handle, DAQ_Stats_t *stats) {
    struct instance *instance = handle;
    memset(stats, 0, sizeof *stats);
    burst_fill_stats(instance->core, stats);
    stats->packets_outstanding = instance->out;
    memcpy(stats->verdicts, instance->verdicts, sizeof instance->verdicts);
    return DAQ_SUCCESS;
}

static void burst_reset_stats(void *handle) {
    struct instance *instance = handle;
    burst_reset(instance->core);
    memset(instance->verdicts, 0, sizeof instance->verdicts);
}

static int burst_get_snaplen(void *handle) {
    return (int)burst_settings_of(((struct instance *)handle)->core)->snaplen;
}

static uint32_t burst_get_capabilities(void *handle) {
    if (!burst_settings_of(((struct instance *)handle)->core)->is_inline)
        return DAQ_CAPA_INTERRUPT | DAQ_CAPA_BPF;
    return DAQ_CAPA_INTERRUPT | DAQ_CAPA_BPF | DAQ_CAPA_BLOCK | DAQ_CAPA_REPLACE | DAQ_CAPA_WHITELIST;
}

static int burst_get_datalink_type(void *handle) {
    return burst_datalink(((struct instance *)handle)->core);
}

/* A message as the host sees it. */
static const DAQ_Msg_t *hand_out(struct instance *instance) {
    struct message *message = instance->free;
    const struct burst_packet *packet = &message->packet;
    instance->free = message->next;
    instance->out++;
    message->is_out = true;
    message->daq.data = packet->bytes;
    message->daq.data_len = packet->length;
    message->header.ts = burst_time_of(packet);
    message->header.pktlen = packet->wire_length;
    message->header.ingress_index = (int32_t)packet->port;
    return &message->daq;
}

static unsigned burst_msg_receive(void *handle, const unsigned most, const DAQ_Msg_t *messages[],
                                  DAQ_RecvStatus *status) {
    struct instance *instance = handle;
    unsigned count = 0;
    *status = DAQ_RSTAT_OK;
    while (count < most && *status == DAQ_RSTAT_OK) {
        if (instance->free == NULL) {
            *status = DAQ_RSTAT_NOBUF;
            break;
        }
        switch (burst_take(instance->core, count == 0, &instance->free->packet)) {
        case BURST_TAKEN:
            messages[count++] = hand_out(instance);
            break;
        case BURST_NONE:
            *status = count > 0 ? DAQ_RSTAT_WOULD_BLOCK : DAQ_RSTAT_TIMEOUT;
            break;
        case BURST_INTERRUPTED:
            *status = DAQ_RSTAT_INTERRUPTED;
            break;
        case BURST_OVER:
            *status = DAQ_RSTAT_EOF;
            break;
        case BURST_NO_ROOM:
            *status = DAQ_RSTAT_NOBUF;
            break;
        case BURST_FAILED:
            fail(instance);
            *status = DAQ_RSTAT_ERROR;
            break;
        }
    }
    return count;
}

/* The message that is out at this address; NULL: none is. */
static struct message *find(struct instance *instance, const DAQ_Msg_t *daq) {
    const uintptr_t at = (uintptr_t)daq - (uintptr_t)instance->pool;
    const size_t index = at / sizeof(struct message);
    if (index >= instance->size || &instance->pool[index].daq != daq)
        return NULL;
    return instance->pool[index].is_out ? &instance->pool[index] : NULL;
}

static int burst_msg_finalize(void *handle, const DAQ_Msg_t *daq, DAQ_Verdict verdict) {
    struct instance *instance = handle;
    struct message *message = find(instance, daq);
    if (message == NULL) {
        base.set_errbuf(instance->module, "burst: this message is not out");
        return DAQ_ERROR_INVAL;
    }
    burst_judge(instance->core, &message->packet, verdict, instance->verdicts);
    message->is_out = false;
    message->daq.data = NULL;
    message->daq.data_len = 0;
    message->next = instance->free;
    instance->free = message;
    instance->out--;
    return DAQ_SUCCESS;
}

static int burst_get_msg_pool_info(void *handle, DAQ_MsgPoolInfo_t *info) {
    const struct instance *instance = handle;
    info->size = instance->size;
    info->available = instance->size - instance->out;
    info->mem_size = instance->size * sizeof(struct message);
    return DAQ_SUCCESS;
}

/* For a function that is left out, as inject and inject_relative, LibDAQ says that it is not
 * supported. */
__attribute__((visibility("default"))) const DAQ_ModuleAPI_t DAQ_MODULE_DATA = {
    .api_version = DAQ_MODULE_API_VERSION,
    .api_size = sizeof(DAQ_ModuleAPI_t),
    .module_version = MODULE_VERSION,
    .name = "burst",
    .type = DAQ_TYPE_INTF_CAPABLE | DAQ_TYPE_INLINE_CAPABLE | DAQ_TYPE_MULTI_INSTANCE,
    .load = burst_load,
    .unload = burst_unload,
    .get_variable_descs = burst_get_variable_descs,
    .instantiate = burst_instantiate,
    .destroy = burst_destroy,
    .set_filter = burst_filter,
    .start = burst_begin,
    .interrupt = burst_interrupt_receive,
    .stop = burst_end,
    .get_stats = burst_get_stats,
    .reset_stats = burst_reset_stats,
    .get_snaplen = burst_get_snaplen,
    .get_capabilities = burst_get_capabilities,
    .get_datalink_type = burst_get_datalink_type,
    .msg_receive = burst_msg_receive,
    .msg_finalize = burst_msg_finalize,
    .get_msg_pool_info = burst_get_msg_pool_info,
};
