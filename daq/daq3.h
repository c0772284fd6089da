/* SPDX-License-Identifier: GPL-2.0-only
 *
 * As much of LibDAQ 3's module interface as daq_burst3.c and host3.c use, in our words: Debian has
 * no headers of LibDAQ 3. Where they are installed, they are taken instead; see the Makefile.
 * daq3_layout.c holds both to the same sizes and places.
 *
 * Source: LibDAQ 3.0.25, api/daq_common.h and api/daq_module_api.h: names, order, types, values. */
#ifndef BURST_DAQ3_H
#define BURST_DAQ3_H

#include <stddef.h>
#include <stdint.h>
#include <sys/time.h>

#define DAQ_MODULE_API_VERSION 0x00030001
#define DAQ_BASE_API_VERSION 0x00030002

#define DAQ_SUCCESS 0
#define DAQ_ERROR -1
#define DAQ_ERROR_NOMEM -2
#define DAQ_ERROR_NOTSUP -4
#define DAQ_ERROR_INVAL -7

#define DAQ_TYPE_INTF_CAPABLE 0x02
#define DAQ_TYPE_INLINE_CAPABLE 0x04
#define DAQ_TYPE_MULTI_INSTANCE 0x08

#define DAQ_CAPA_BLOCK 0x00000001
#define DAQ_CAPA_REPLACE 0x00000002
#define DAQ_CAPA_WHITELIST 0x00000008
#define DAQ_CAPA_INTERRUPT 0x00000040
#define DAQ_CAPA_BPF 0x00000080

#define DAQ_PKT_FLAG_NOT_FORWARDING 0x0002
#define DAQ_PKTHDR_UNKNOWN -1
#define DAQ_MSG_META_SLOTS 8

#define DAQ_VAR_DESC_REQUIRES_ARGUMENT 0x01
#define DAQ_VAR_DESC_FORBIDS_ARGUMENT 0x02

/* How a receive went. */
typedef enum {
    DAQ_RSTAT_OK,
    DAQ_RSTAT_WOULD_BLOCK,
    DAQ_RSTAT_TIMEOUT,
    DAQ_RSTAT_EOF,
    DAQ_RSTAT_INTERRUPTED,
    DAQ_RSTAT_NOBUF,
    DAQ_RSTAT_ERROR,
    DAQ_RSTAT_INVALID,
    MAX_DAQ_RSTAT
} DAQ_RecvStatus;

typedef enum { DAQ_MSG_TYPE_PACKET = 1, MAX_DAQ_MSG_TYPE = UINT16_MAX } DAQ_MsgType;

typedef enum {
    DAQ_VERDICT_PASS,
    DAQ_VERDICT_BLOCK,
    DAQ_VERDICT_REPLACE,
    DAQ_VERDICT_WHITELIST,
    DAQ_VERDICT_BLACKLIST,
    DAQ_VERDICT_IGNORE,
    MAX_DAQ_VERDICT
} DAQ_Verdict;

typedef enum {
    DAQ_MODE_NONE,
    DAQ_MODE_PASSIVE,
    DAQ_MODE_INLINE,
    DAQ_MODE_READ_FILE,
    MAX_DAQ_MODE
} DAQ_Mode;

typedef struct _daq_module_config *DAQ_ModuleConfig_h;
typedef struct _daq_module_instance *DAQ_ModuleInstance_h;
typedef const struct _daq_msg *DAQ_Msg_h;

/* What a host gets for a packet; hdr is a DAQ_PktHdr_t. */
typedef struct _daq_msg {
    void *hdr;
    uint8_t *data;
    void *meta[DAQ_MSG_META_SLOTS];
    DAQ_ModuleInstance_h owner;
    void *priv;
    size_t hdr_len;
    DAQ_MsgType type;
    uint32_t data_len;
} DAQ_Msg_t;

typedef struct _daq_pkt_hdr {
    struct timeval ts;
    uint32_t pktlen;
    int32_t ingress_index;
    int32_t egress_index;
    int16_t ingress_group;
    int16_t egress_group;
    uint32_t opaque;
    uint32_t flow_id;
    uint32_t flags;
    uint32_t address_space_id;
    uint32_t tenant_id;
} DAQ_PktHdr_t;

typedef struct _daq_stats {
    uint64_t hw_packets_received;
    uint64_t hw_packets_dropped;
    uint64_t packets_received;
    uint64_t packets_filtered;
    uint64_t packets_injected;
    uint64_t packets_outstanding;
    uint64_t verdicts[MAX_DAQ_VERDICT];
} DAQ_Stats_t;

typedef struct _daq_msg_pool_info {
    uint32_t size;
    uint32_t available;
    size_t mem_size;
} DAQ_MsgPoolInfo_t;

typedef struct _daq_variable_desc {
    const char *name;
    const char *description;
    uint32_t flags;
} DAQ_VariableDesc_t;

struct _daq_instance_api;

/* What the host does for a module. resolve_subapi is for modules around others: not used here. */
typedef struct _daq_base_api {
    uint32_t api_version;
    uint32_t api_size;
    const char *(*config_get_input)(DAQ_ModuleConfig_h);
    int (*config_get_snaplen)(DAQ_ModuleConfig_h);
    unsigned (*config_get_timeout)(DAQ_ModuleConfig_h);
    unsigned (*config_get_msg_pool_size)(DAQ_ModuleConfig_h);
    unsigned (*config_get_total_instances)(DAQ_ModuleConfig_h);
    unsigned (*config_get_instance_id)(DAQ_ModuleConfig_h);
    DAQ_Mode (*config_get_mode)(DAQ_ModuleConfig_h);
    const char *(*config_get_variable)(DAQ_ModuleConfig_h, const char *);
    int (*config_first_variable)(DAQ_ModuleConfig_h, const char **, const char **);
    int (*config_next_variable)(DAQ_ModuleConfig_h, const char **, const char **);
    int (*resolve_subapi)(DAQ_ModuleInstance_h, struct _daq_instance_api *);
    void (*set_errbuf)(DAQ_ModuleInstance_h, const char *, ...)
        __attribute__((format(printf, 2, 3)));
} DAQ_BaseAPI_t;

/* What a module exports as DAQ_MODULE_DATA. A function that is NULL is not supported, but for load,
 * instantiate and destroy. */
typedef struct _daq_module_api {
    const uint32_t api_version;
    const uint32_t api_size;
    const uint32_t module_version;
    const char *name;
    const uint32_t type;
    int (*load)(const DAQ_BaseAPI_t *);
    int (*unload)(void);
    int (*get_variable_descs)(const DAQ_VariableDesc_t **);
    int (*instantiate)(const DAQ_ModuleConfig_h, DAQ_ModuleInstance_h, void **);
    void (*destroy)(void *);
    int (*set_filter)(void *, const char *);
    int (*start)(void *);
    int (*inject)(void *, DAQ_MsgType, const void *, const uint8_t *, uint32_t);
    int (*inject_relative)(void *, DAQ_Msg_h, const uint8_t *, uint32_t, int);
    int (*interrupt)(void *);
    int (*stop)(void *);
    int (*ioctl)(void *, int, void *, size_t); /* int: an enum, DAQ_IoctlCmd */
    int (*get_stats)(void *, DAQ_Stats_t *);
    void (*reset_stats)(void *);
    int (*get_snaplen)(void *);
    uint32_t (*get_capabilities)(void *);
    int (*get_datalink_type)(void *);
    int (*config_load)(void *, void **);
    int (*config_swap)(void *, void *, void **);
    int (*config_free)(void *, void *);
    unsigned (*msg_receive)(void *, const unsigned, const DAQ_Msg_t **, DAQ_RecvStatus *);
    int (*msg_finalize)(void *, const DAQ_Msg_t *, DAQ_Verdict);
    int (*get_msg_pool_info)(void *, DAQ_MsgPoolInfo_t *);
} DAQ_ModuleAPI_t;

#endif
