/** What one wants most of the time: struct burstline_options options = BURSTLINE_OPTIONS_INIT; */
#define BURSTLINE_OPTIONS_INIT                                                                  \
    {                                                                                           \
        sizeof(struct burstline_options), 1, BURSTLINE_LOSSY, BURSTLINE_FROM_NOW,               \
            BURSTLINE_TRUST_NOBODY, BURSTLINE_FOLLOW, BURSTLINE_ALL_LOGS, 0                     \
    }

/** The same for burstline_publish(): 16 MiB, for readers of its user, who cannot hold it up. */
#define BURSTLINE_PUBLISH_OPTIONS_INIT                                                          \
    {                                                                                           \
        sizeof(struct burstline_publish_options), 0600, 16777216, BURSTLINE_HASH_FIVE_TUPLE, 0, \
            100, 1                                                                              \
    }

#ifdef __cplusplus
extern "C" {
#endif

/* What follows is compiled into the program, and so is part of the ABI: the layout of descs, facts
 * and bursts does not change while BURSTLINE_ABI_VERSION is the same. */

/** Where the packet's first byte is, from the burst's base. A multiple of 16 in a log. */
static inline uint32_t burstline_desc_offset(const struct burstline_desc *desc) {
    return (uint32_t)desc->place;
}

/** How many bytes of the packet are here, in [0, 2^19). */
static inline uint32_t burstline_desc_length(const struct burstline_desc *desc) {
    return (uint32_t)(desc->place >> 45);
}

/** The port it came from, in [0, 256): see burstline_port_name(). */
static inline uint32_t burstline_desc_port(const struct burstline_desc *desc) {
    return (uint32_t)(desc->place >> 32) & 0xff;
}

/** What else is known: BURSTLINE_FLAG_*, in [0, 32). */
static inline uint32_t burstline_desc_flags(const struct burstline_desc *desc) {
    return (uint32_t)(desc->place >> 40) & 0x1f;
}

/** The flow hash; 0 where the publisher makes none. */
static inline uint32_t burstline_desc_hash(const struct burstline_desc *desc) {
    return (uint32_t)desc->flow;
}

/** ns after burst.base_time_ns; without meaning where BURSTLINE_FLAG_FACTS is set. */
static inline uint32_t burstline_desc_time_delta_ns(const struct burstline_desc *desc) {
    return (uint32_t)(desc->flow >> 32);
}

/** Where its facts are, if it has any, else the next packet, from the burst's base. */
static inline uint64_t burstline_desc_facts_offset(const struct burstline_desc *desc) {
    const uint64_t end = (uint64_t)burstline_desc_offset(desc) + burstline_desc_length(desc);
    return (end + 15) & ~(uint64_t)15;
}

/** Where the next packet is, from the burst's base: they lie back to back. */
static inline uint64_t burstline_desc_end(const struct burstline_desc *desc) {
    const int has_facts = (burstline_desc_flags(desc) & BURSTLINE_FLAG_FACTS) != 0;
    return burstline_desc_facts_offset(desc) + (has_facts ? sizeof(struct burstline_facts) : 0);
}

/** The desc of packet index, in [0, burst.count): 0 is the oldest. */
static inline const struct burstline_desc *burstline_desc_at(const struct burstline_burst *burst,
                                                             uint32_t index) {
    return burst->worklist + (burst->count - 1 - index);
}

/** The bytes of packet index, as on the wire, without FCS. */
static inline const uint8_t *burstline_packet(const struct burstline_burst *burst,
                                              uint32_t index) {
    return burst->base + burstline_desc_offset(burstline_desc_at(burst, index));
}

/** How many of its bytes are here. */
static inline uint32_t burstline_packet_length(const struct burstline_burst *burst,
                                               uint32_t index) {
    return burstline_desc_length(burstline_desc_at(burst, index));
}

/** Facts of packet index: those that stand behind it, else what its desc and burst say. */
static inline struct burstline_facts burstline_packet_facts(const struct burstline_burst *burst,
                                                            uint32_t index) {
    const struct burstline_desc *desc = burstline_desc_at(burst, index);
    struct burstline_facts facts;
    if (burstline_desc_flags(desc) & BURSTLINE_FLAG_FACTS) {
        memcpy(&facts, burst->base + burstline_desc_facts_offset(desc), sizeof facts);
    } else {
        memset(&facts, 0, sizeof facts);
        facts.time_ns = burst->base_time_ns + burstline_desc_time_delta_ns(desc);
        facts.original_length = burstline_desc_length(desc);
    }
    return facts;
}

/** When it arrived, in ns since 1970. */
static inline uint64_t burstline_packet_time_ns(const struct burstline_burst *burst,
                                                uint32_t index) {
    return burstline_packet_facts(burst, index).time_ns;
}

/** Its length on the wire; more than burstline_packet_length() when it was cut short. */
static inline uint32_t burstline_packet_original_length(const struct burstline_burst *burst,
                                                        uint32_t index) {
    return burstline_packet_facts(burst, index).original_length;
}

/** Packets that its port lost just before it. */
static inline uint64_t burstline_packet_drops_before(const struct burstline_burst *burst,
                                                     uint32_t index) {
    return burstline_packet_facts(burst, index).drops_before;
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* BURSTLINE_H */
