/* SPDX-License-Identifier: GPL-2.0-only
 *
 * What both modules say alike. Included behind the header of LibDAQ 2 or 3, which share names. */
#ifndef BURST_DAQ_H
#define BURST_DAQ_H

#include "burst_core.h"

/* What a verdict becomes. LibDAQ's own modules take one that they do not know for PASS. */
static inline enum burst_decision burst_decision_of(const struct burst_core *core,
                                                    DAQ_Verdict verdict) {
    switch (verdict) {
    case DAQ_VERDICT_BLOCK:
#ifdef DAQ_CAPA_RETRY /* of LibDAQ 2: nothing is given twice, and a sender sends it again */
    case DAQ_VERDICT_RETRY:
#endif
        return BURST_DROP;
    case DAQ_VERDICT_BLACKLIST:
        return burst_settings_of(core)->is_rejecting ? BURST_REJECT : BURST_DROP;
    case DAQ_VERDICT_REPLACE:
        return BURST_REPLACE;
    case DAQ_VERDICT_WHITELIST:
    case DAQ_VERDICT_IGNORE:
        return BURST_PASS_FLOW;
    default:
        return BURST_PASS;
    }
}

/* Takes a packet's verdict, and counts it. */
static inline void burst_judge(struct burst_core *core, struct burst_packet *packet,
                               DAQ_Verdict verdict, uint64_t *counts) {
    if ((unsigned)verdict >= MAX_DAQ_VERDICT)
        verdict = DAQ_VERDICT_PASS;
    counts[verdict]++;
    burst_decide(core, packet, burst_decision_of(core, verdict));
}

/* The counts that the core keeps. */
static inline void burst_fill_stats(struct burst_core *core, DAQ_Stats_t *stats) {
    const struct burst_counts counts = burst_count(core);
    stats->hw_packets_received = counts.offered - counts.missed;
    stats->hw_packets_dropped = counts.missed;
    stats->packets_received = counts.taken;
    stats->packets_filtered = counts.filtered;
}

static inline struct timeval burst_time_of(const struct burst_packet *packet) {
    const struct timeval time = {
        .tv_sec = (time_t)(packet->time_ns / 1000000000u),
        .tv_usec = (suseconds_t)(packet->time_ns % 1000000000u / 1000),
    };
    return time;
}

#endif
