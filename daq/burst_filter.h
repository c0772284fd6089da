/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Filters of pcap-filter(7): libpcap, loaded at run time, compiles them and runs them. */
#ifndef BURST_FILTER_H
#define BURST_FILTER_H

#include <stdbool.h>
#include <stdint.h>

struct burst_filter;

/* For packets that begin as DLT_ value `datalink` says. NULL: error says why, in BURST_ERROR_BYTES. */
struct burst_filter *burst_filter_new(const char *text, int datalink, char *error);
/* NULL is allowed. */
void burst_filter_free(struct burst_filter *filter);
/* Whether it wants a packet of which `length` bytes are there. */
bool burst_filter_wants(const struct burst_filter *filter, const uint8_t *bytes, uint32_t length,
                        uint32_t wire_length);

#endif
