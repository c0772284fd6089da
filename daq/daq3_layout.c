/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Sizes, places and values of LibDAQ 3.0.25's module interface on 64-bit Linux, as its own headers
 * have them: whichever headers are compiled with, they have to be these. */
#include "daq3_interface.h"

#include <stddef.h>

#define IS(name, is_so) typedef char name[(is_so) ? 1 : -1]
#define AT(type, field, place) IS(at_##type##_##field, offsetof(type, field) == (place))

IS(module_version, DAQ_MODULE_API_VERSION == 0x00030001);
IS(base_version, DAQ_BASE_API_VERSION == 0x00030002);
IS(message, sizeof(DAQ_Msg_t) == 112);
AT(DAQ_Msg_t, data, 8);
AT(DAQ_Msg_t, owner, 80);
AT(DAQ_Msg_t, priv, 88);
AT(DAQ_Msg_t, hdr_len, 96);
AT(DAQ_Msg_t, type, 104);
AT(DAQ_Msg_t, data_len, 108);
IS(header, sizeof(DAQ_PktHdr_t) == 56);
AT(DAQ_PktHdr_t, pktlen, 16);
AT(DAQ_PktHdr_t, ingress_index, 20);
AT(DAQ_PktHdr_t, egress_index, 24);
AT(DAQ_PktHdr_t, ingress_group, 28);
AT(DAQ_PktHdr_t, egress_group, 30);
AT(DAQ_PktHdr_t, opaque, 32);
AT(DAQ_PktHdr_t, flow_id, 36);
AT(DAQ_PktHdr_t, flags, 40);
AT(DAQ_PktHdr_t, address_space_id, 44);
AT(DAQ_PktHdr_t, tenant_id, 48);
IS(statistics, sizeof(DAQ_Stats_t) == 96);
AT(DAQ_Stats_t, packets_filtered, 24);
AT(DAQ_Stats_t, packets_outstanding, 40);
AT(DAQ_Stats_t, verdicts, 48);
IS(pool, sizeof(DAQ_MsgPoolInfo_t) == 16);
AT(DAQ_MsgPoolInfo_t, mem_size, 8);
IS(variable, sizeof(DAQ_VariableDesc_t) == 24);
IS(base, sizeof(DAQ_BaseAPI_t) == 104);
AT(DAQ_BaseAPI_t, config_get_input, 8);
AT(DAQ_BaseAPI_t, config_get_mode, 56);
AT(DAQ_BaseAPI_t, config_next_variable, 80);
AT(DAQ_BaseAPI_t, set_errbuf, 96);
IS(module, sizeof(DAQ_ModuleAPI_t) == 216);
AT(DAQ_ModuleAPI_t, name, 16);
AT(DAQ_ModuleAPI_t, type, 24);
AT(DAQ_ModuleAPI_t, load, 32);
AT(DAQ_ModuleAPI_t, get_variable_descs, 48);
AT(DAQ_ModuleAPI_t, instantiate, 56);
AT(DAQ_ModuleAPI_t, destroy, 64);
AT(DAQ_ModuleAPI_t, set_filter, 72);
AT(DAQ_ModuleAPI_t, start, 80);
AT(DAQ_ModuleAPI_t, interrupt, 104);
AT(DAQ_ModuleAPI_t, stop, 112);
AT(DAQ_ModuleAPI_t, get_stats, 128);
AT(DAQ_ModuleAPI_t, get_datalink_type, 160);
AT(DAQ_ModuleAPI_t, msg_receive, 192);
AT(DAQ_ModuleAPI_t, msg_finalize, 200);
AT(DAQ_ModuleAPI_t, get_msg_pool_info, 208);
IS(packet, DAQ_MSG_TYPE_PACKET == 1);
IS(error, DAQ_RSTAT_ERROR == 6 && MAX_DAQ_RSTAT == 8);
IS(verdicts, DAQ_VERDICT_IGNORE == 5 && MAX_DAQ_VERDICT == 6);
IS(modes, DAQ_MODE_PASSIVE == 1 && DAQ_MODE_INLINE == 2);
IS(abilities, DAQ_CAPA_BLOCK == 1 && DAQ_CAPA_REPLACE == 2 && DAQ_CAPA_WHITELIST == 8 &&
                  DAQ_CAPA_INTERRUPT == 0x40 && DAQ_CAPA_BPF == 0x80);
IS(types, DAQ_TYPE_INTF_CAPABLE == 2 && DAQ_TYPE_INLINE_CAPABLE == 4 &&
              DAQ_TYPE_MULTI_INSTANCE == 8);
IS(errors, DAQ_ERROR == -1 && DAQ_ERROR_NOMEM == -2 && DAQ_ERROR_NOTSUP == -4 &&
               DAQ_ERROR_INVAL == -7);
IS(flags, DAQ_PKT_FLAG_NOT_FORWARDING == 2 && DAQ_PKTHDR_UNKNOWN == -1);
IS(arguments, DAQ_VAR_DESC_REQUIRES_ARGUMENT == 1 && DAQ_VAR_DESC_FORBIDS_ARGUMENT == 2);
