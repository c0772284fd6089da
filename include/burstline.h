/* libburstline: published packet logs, read and written.
 *
 * Packets lie back to back in the publisher's memory, with a worklist beside them, and are read
 * there: nothing is copied, and no call is made for a packet.
 *
 *     struct burstline_reader *reader;
 *     struct burstline_burst burst;
 *     if (burstline_open("tap", NULL, &reader) != BURSTLINE_STATUS_OK)
 *         return fprintf(stderr, "%s\n", burstline_error_text(NULL)), 1;
 *     while (burstline_next(reader, BURSTLINE_FOREVER, &burst) == BURSTLINE_STATUS_OK) {
 *         for (uint32_t i = 0; i < burst.count; i++)
 *             use(burstline_packet(&burst, i), burstline_packet_length(&burst, i));
 *         burstline_release(reader, &burst);
 *     }
 *     burstline_close(reader);
 *
 * A program that publishes:
 *
 *     struct burstline_writer *writer;
 *     struct burstline_packet_to_write packet = {bytes, length, 0, 0, 0, 0, 0};
 *     if (burstline_publish("mine", NULL, &writer) == BURSTLINE_STATUS_OK)
 *         burstline_write(writer, &packet, 1, NULL);
 *     burstline_finish(writer);
 *
 * Every pointer that a function is given is NULL, which is an error where nothing else is said, or
 * points to what its type says; a string ends with a 0. A pointer to a reader may be any: one that
 * is closed is an error, not a fault.
 *
 * Licence: MIT or Apache-2.0, at your choice.
 * Generated from the Rust sources by `make header`: change those. docs/c-interface.md says what
 * may change from one version to the next.
 */
#ifndef BURSTLINE_H
#define BURSTLINE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/**
 * Raised when a program compiled against an older header could misunderstand this library.
 * It is the number at the end of the shared library's name.
 */
#define BURSTLINE_ABI_VERSION 0

/**
 * burstline_options.policy: a reader that is too slow misses packets, and counts them.
 */
#define BURSTLINE_LOSSY 0

/**
 * burstline_options.policy: the publisher waits for this reader, where it allows that.
 */
#define BURSTLINE_LOSSLESS 1

/**
 * burstline_options.start: with what is published next.
 */
#define BURSTLINE_FROM_NOW 0

/**
 * burstline_options.start: with the oldest packet that the publisher still has.
 */
#define BURSTLINE_FROM_OLDEST 1

/**
 * burstline_options.trust: packets are read where the publisher put them. The program vouches for
 * each publisher of its user and of root: the publisher changes no byte of a burst that is held.
 * One that does can do what a bad pointer does. Publishers of other users are refused. It is 0,
 * so that a program built with an older header does what it did.
 */
#define BURSTLINE_TRUST_OWN_USER 0

/**
 * burstline_options.trust: packets of every publisher are copied and checked. The default.
 */
#define BURSTLINE_TRUST_NOBODY 1

/**
 * burstline_options.trust: packets of every publisher are read in place, and the program vouches
 * for each publisher.
 */
#define BURSTLINE_TRUST_ANYBODY 2

/**
 * burstline_options.restarts: when a writer was stopped or killed, go on with the next one.
 */
#define BURSTLINE_FOLLOW 0

/**
 * burstline_options.restarts: the log is over with its writer.
 */
#define BURSTLINE_NO_FOLLOW 1

/**
 * burstline_options.verdicts: the reader gives verdicts, and packets wait for them.
 */
#define BURSTLINE_VERDICTS 1

/**
 * burstline_verdict(): the packet goes on as it is.
 */
#define BURSTLINE_VERDICT_PASS 1

/**
 * burstline_verdict(): the packet ends here.
 */
#define BURSTLINE_VERDICT_DROP 2

/**
 * burstline_verdict(): the packet ends here, and its sender gets an answer.
 */
#define BURSTLINE_VERDICT_REJECT 4

/**
 * burstline_verdict(): the packet goes on, and so do all later ones of its flow, unseen.
 */
#define BURSTLINE_VERDICT_PASS_FLOW 5

/**
 * burstline_options.log: all logs of the name, in turn.
 */
#define BURSTLINE_ALL_LOGS UINT32_MAX

/**
 * A timeout without end.
 */
#define BURSTLINE_FOREVER UINT64_MAX

/**
 * burstline_publish_options.hash: packets have none.
 */
#define BURSTLINE_HASH_NONE 0

/**
 * burstline_publish_options.hash: of addresses, ports and protocol, the same for both directions.
 */
#define BURSTLINE_HASH_FIVE_TUPLE 2

/**
 * A mark of a packet: it was cut short, lies far from its neighbours in time, or packets were lost
 * just before it. A struct burstline_facts stands behind it.
 */
#define BURSTLINE_FLAG_FACTS 1

/**
 * A mark of a packet: the kernel left its transport checksum to a device.
 */
#define BURSTLINE_FLAG_PARTIAL_CHECKSUM 2

/**
 * A mark of a packet: several packets of the wire that GRO or LRO merged into one.
 */
#define BURSTLINE_FLAG_MERGED 4

/**
 * A mark of a packet: sent by the capturing host, not received.
 */
#define BURSTLINE_FLAG_OUTGOING 8

/**
 * A mark of a packet: the device or file says that it arrived damaged.
 */
#define BURSTLINE_FLAG_DAMAGED 16

/**
 * What a function returns: 0 or more if it did what it should, less than 0 if not. What went wrong
 * is said by burstline_error_text().
 */
enum burstline_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * Done.
     */
    BURSTLINE_STATUS_OK = 0,
    /**
     * There is nothing now: no packet within the timeout, no name for the port.
     */
    BURSTLINE_STATUS_NONE = 1,
    /**
     * The log is over, and read to its end.
     */
    BURSTLINE_STATUS_END = 2,
    /**
     * An argument is NULL, misaligned or out of its range.
     */
    BURSTLINE_STATUS_ERROR_ARGUMENT = -1,
    /**
     * The reader is closed, or was never open.
     */
    BURSTLINE_STATUS_ERROR_CLOSED = -2,
    /**
     * The burst is not held: it was released, or comes from another reader.
     */
    BURSTLINE_STATUS_ERROR_NOT_HELD = -3,
    /**
     * Every segment of the window is held: release a burst first.
     */
    BURSTLINE_STATUS_ERROR_WINDOW = -4,
    /**
     * Another thread is in a call with this reader.
     */
    BURSTLINE_STATUS_ERROR_BUSY = -5,
    /**
     * Nobody publishes the name.
     */
    BURSTLINE_STATUS_ERROR_ABSENT = -6,
    /**
     * The publisher is not to be trusted, or does not let this reader in.
     */
    BURSTLINE_STATUS_ERROR_REFUSED = -7,
    /**
     * The system, or what the publisher sent, is at fault.
     */
    BURSTLINE_STATUS_ERROR_SYSTEM = -8,
    /**
     * A fault of the library itself, stopped at its border. The reader can only be closed.
     */
    BURSTLINE_STATUS_ERROR_PANIC = -9,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum burstline_status burstline_status;
#else
typedef int32_t burstline_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Publishes packets under a name. Its pointer is only a number: nothing is there to look at.
 */
struct burstline_writer;

/**
 * Reads what a publisher publishes. Its pointer is only a number: nothing is there to look at.
 */
struct burstline_reader;

/**
 * How to read. BURSTLINE_OPTIONS_INIT has the values that one wants most of the time.
 */
struct burstline_options {
    /**
     * sizeof(struct burstline_options) of the header that the program was compiled with.
     */
    uint32_t size;
    /**
     * How many segments may be held at once, in [1, 8]; 0 is 1. A segment has many bursts.
     */
    uint32_t window;
    /**
     * BURSTLINE_LOSSY or BURSTLINE_LOSSLESS.
     */
    uint32_t policy;
    /**
     * BURSTLINE_FROM_NOW or BURSTLINE_FROM_OLDEST.
     */
    uint32_t start;
    /**
     * BURSTLINE_TRUST_NOBODY, BURSTLINE_TRUST_OWN_USER or BURSTLINE_TRUST_ANYBODY.
     */
    uint32_t trust;
    /**
     * BURSTLINE_FOLLOW or BURSTLINE_NO_FOLLOW.
     */
    uint32_t restarts;
    /**
     * Which log of the name, from 0, or BURSTLINE_ALL_LOGS. A publisher that receives on several
     * cores has a log for each.
     */
    uint32_t log;
    /**
     * Whether the reader gives verdicts, to a publisher that waits for them (burstline bounce
     * --inline): 0, or BURSTLINE_VERDICTS. One reader of a log can.
     */
    uint32_t verdicts;
};

/**
 * One packet's entry in the worklist: two words, read by the functions burstline_desc_*().
 *
 * place: bits 0 to 31 offset from base, 32 to 39 port, 40 to 44 flags, 45 to 63 length.
 * flow: bits 0 to 31 flow hash, 32 to 63 time after base_time_ns.
 */
struct burstline_desc {
    /**
     * Offset, port, flags, length.
     */
    uint64_t place;
    /**
     * Flow hash and time.
     */
    uint64_t flow;
};

/**
 * A run of packets of one log. The bytes and the worklist are read-only, and do not change until
 * the burst is released or its reader closed.
 *
 * The packets lie back to back: each starts where burstline_desc_end() of the one before says.
 */
struct burstline_burst {
    /**
     * What offsets count from.
     */
    const uint8_t *base;
    /**
     * The worklist as it lies in memory: the newest packet first, the oldest last. See
     * burstline_desc_at().
     */
    const struct burstline_desc *worklist;
    /**
     * Bytes that may be read from base on; packets and facts lie inside.
     */
    uint64_t bytes;
    /**
     * How many packets.
     */
    uint32_t count;
    /**
     * Which log of the name, from 0.
     */
    uint32_t log;
    /**
     * What times count from, in ns since 1970.
     */
    uint64_t base_time_ns;
    /**
     * The number of the oldest packet, from 0 in each log of each epoch.
     */
    uint64_t first_packet;
    /**
     * Which publisher of the name this is of: a later one has a larger number.
     */
    uint64_t epoch;
    /**
     * The library's.
     */
    uint64_t ticket;
};

/**
 * What a reader has seen so far, over all logs and all writers that it has read. When the log is
 * over, offered = delivered + missed, or packets are unaccounted for.
 */
struct burstline_statistics {
    /**
     * In: sizeof(struct burstline_statistics). Out: how many bytes of it the library has filled.
     */
    uint32_t size;
    /**
     * Logs that it reads.
     */
    uint32_t logs;
    /**
     * Packets published since the reader's start, by the writers' own count.
     */
    uint64_t offered;
    /**
     * Packets in the bursts that it was given.
     */
    uint64_t delivered;
    /**
     * Packets that the writer took away before they were read: an exact count.
     */
    uint64_t missed;
    /**
     * How often the writer had lapped it.
     */
    uint64_t laps;
    /**
     * Of the missed, those that contradicted themselves (BURSTLINE_TRUST_NOBODY).
     */
    uint64_t torn;
    /**
     * Packets published that have yet to be read.
     */
    uint64_t lag;
    /**
     * How often a writer was stopped or killed. What passed before the next one is nobody's, and
     * not counted.
     */
    uint64_t writer_down;
    /**
     * Which publisher of the name was read last: a later one has a larger number.
     */
    uint64_t epoch;
    /**
     * The publisher's process; 0 if that is of another process namespace.
     */
    uint32_t writer_pid;
    /**
     * Lossless readers that the publisher has lost patience with: lossy from then on.
     */
    uint32_t demoted;
    /**
     * Bursts that are not released.
     */
    uint32_t held;
    /**
     * 1 while there is no writer and the next one is waited for.
     */
    uint32_t is_waiting;
};

/**
 * An interface that packets came from.
 */
struct burstline_port {
    /**
     * What its packets start with. Source: LINKTYPE_ values of libpcap, 1 is Ethernet.
     */
    uint32_t link_type;
    /**
     * Its name in UTF-8, ended by a 0.
     */
    char name[60];
};

/**
 * How to publish. BURSTLINE_PUBLISH_OPTIONS_INIT has the values that one wants most of the time.
 */
struct burstline_publish_options {
    /**
     * sizeof(struct burstline_publish_options) of the header that the program was compiled with.
     */
    uint32_t size;
    /**
     * Who may read, like a file's mode, in [0, 0777].
     */
    uint32_t mode;
    /**
     * Memory of the log, in whole segments of 256 KiB: from 2 MiB to 64 GiB.
     */
    uint64_t log_bytes;
    /**
     * What the flow hash of each packet is made from: BURSTLINE_HASH_NONE or
     * BURSTLINE_HASH_FIVE_TUPLE.
     */
    uint32_t hash;
    /**
     * Whether readers that ask for it may hold the writer up: 0 or 1.
     */
    uint32_t lossless;
    /**
     * How long burstline_write() waits for readers that hold the log full, in ms, in [0, 60000].
     */
    uint32_t wait_ms;
    /**
     * What packets start with. Source: LINKTYPE_ values of libpcap, 1 is Ethernet.
     */
    uint32_t link_type;
};

/**
 * A packet to be published. Zeros but for its bytes and length are what one wants most of the
 * time.
 */
struct burstline_packet_to_write {
    /**
     * Its bytes, from the link header on, without FCS. They are copied.
     */
    const uint8_t *bytes;
    /**
     * How many, in [1, 131072].
     */
    uint32_t length;
    /**
     * Its length on the wire, without FCS; less than length, such as 0: as many as there are.
     */
    uint32_t original_length;
    /**
     * When it arrived, in ns since 1970; 0: now.
     */
    uint64_t time_ns;
    /**
     * Packets that its port lost just before it.
     */
    uint64_t drops_before;
    /**
     * Its port, in [0, 256): see burstline_writer_port().
     */
    uint32_t port;
    /**
     * BURSTLINE_FLAG_*, without BURSTLINE_FLAG_FACTS.
     */
    uint32_t flags;
};

/**
 * What became of the packets that a writer was given: offered = published + full.
 */
struct burstline_writer_statistics {
    /**
     * In: sizeof(struct burstline_writer_statistics). Out: how many bytes the library has filled.
     */
    uint32_t size;
    /**
     * Readers of other processes, at this moment.
     */
    uint32_t readers;
    /**
     * Packets that burstline_write() was given.
     */
    uint64_t offered;
    /**
     * Packets that are published, whether or not somebody reads them.
     */
    uint64_t published;
    /**
     * Packets that the log had no room for.
     */
    uint64_t full;
    /**
     * Which publisher of the name this is: the next one has a larger number.
     */
    uint64_t epoch;
};

/**
 * Where a packet goes: addresses, ports and protocol, in its own direction.
 */
struct burstline_flow {
    /**
     * Address of the sender; an IPv4 address stands in the last 4 bytes, behind ::ffff.
     */
    uint8_t source[16];
    /**
     * Address of the receiver, likewise.
     */
    uint8_t destination[16];
    /**
     * Port of the sender; 0 where has_ports is 0.
     */
    uint16_t source_port;
    /**
     * Port of the receiver, likewise.
     */
    uint16_t destination_port;
    /**
     * IP protocol number.
     */
    uint8_t protocol;
    /**
     * 4 or 6.
     */
    uint8_t version;
    /**
     * Whether the packet shows ports: 0 or 1.
     */
    uint8_t has_ports;
    /**
     * Not used.
     */
    uint8_t reserved;
    /**
     * BURSTLINE_HASH_FIVE_TUPLE of it: the same for both directions.
     */
    uint32_t hash;
};

/**
 * What is true of few packets. Stands behind the packet's bytes, at the next multiple of 16.
 */
struct burstline_facts {
    /**
     * When the packet arrived, in ns since 1970.
     */
    uint64_t time_ns;
    /**
     * Packets that its port lost just before it.
     */
    uint64_t drops_before;
    /**
     * Its length on the wire, in bytes without FCS.
     */
    uint32_t original_length;
    /**
     * Not used.
     */
    uint32_t reserved[3];
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The library's version, such as "0.1.0".
 */
const char *burstline_version(void);

/**
 * The library's BURSTLINE_ABI_VERSION.
 */
uint32_t burstline_abi_version(void);

/**
 * Attaches to the logs that are published as name: a name such as "tap", or the path of a socket,
 * with a slash in it. options may be NULL: BURSTLINE_OPTIONS_INIT. On success *reader is one to
 * be closed with burstline_close(), else NULL.
 *
 * Takes some system calls, and up to 10 s where the publisher does not answer.
 */
burstline_status burstline_open(const char *name,
                                const struct burstline_options *options,
                                struct burstline_reader **reader);

/**
 * Gives the next packets, in *burst, to be given back with burstline_release(). Waits for them at
 * most timeout_ns: 0 only looks, BURSTLINE_FOREVER waits without end.
 *
 * BURSTLINE_STATUS_NONE: none came; BURSTLINE_STATUS_END: none will ever come. Both leave in
 * *burst a burst of no packets. With BURSTLINE_FOLLOW a reader goes on after its writer was
 * stopped or killed: it reads that writer's packets, then those of the next one. If that one
 * cannot be read, this says so (BURSTLINE_STATUS_ERROR_REFUSED or _SYSTEM); the next call tries
 * again. Taking it up is the one thing that may take longer than timeout_ns: up to 10 s where it
 * does not answer.
 *
 * One thread at a time: another one's call is BURSTLINE_STATUS_ERROR_BUSY; burstline_close() in
 * another thread ends this one with BURSTLINE_STATUS_ERROR_CLOSED. Costs no system call where
 * packets are.
 */
burstline_status burstline_next(struct burstline_reader *reader,
                                uint64_t timeout_ns,
                                struct burstline_burst *burst);

/**
 * Gives a burst back. Its packets must not be looked at any more; *burst is left as one of no
 * packets. Any thread may do it at any time, in any order.
 */
burstline_status burstline_release(struct burstline_reader *reader,
                                   struct burstline_burst *burst);

/**
 * Gives packets [from, from + count) of a burst that is held a verdict: BURSTLINE_VERDICT_PASS,
 * _DROP, _REJECT or _PASS_FLOW; packet 0 is the oldest. Other bytes for a packet are given by
 * burstline_replace(). The reader was opened with BURSTLINE_VERDICTS.
 *
 * A packet that gets no verdict within the publisher's deadline goes on or is lost, as the
 * publisher's options say. A verdict that comes later changes nothing, and is not an error. Of
 * several on one packet the publisher takes one: give one. Any thread may do it at any time. Costs
 * no system call; one call for many packets is the cheapest.
 */
burstline_status burstline_verdict(struct burstline_reader *reader,
                                   const struct burstline_burst *burst,
                                   uint32_t from,
                                   uint32_t count,
                                   uint32_t verdict);

/**
 * Replaces a packet of a held burst by length bytes, from the link header on. index says which
 * packet: 0 is the oldest. length is in [14, 65535]. The bytes are copied.
 *
 * BURSTLINE_STATUS_NONE: replacements of older packets fill the room for them; nothing was given,
 * and it may be tried again when those packets have left. The rest is as of burstline_verdict().
 */
burstline_status burstline_replace(struct burstline_reader *reader,
                                   const struct burstline_burst *burst,
                                   uint32_t index,
                                   const uint8_t *bytes,
                                   uint64_t length);

/**
 * Writes to *statistics what the reader has seen so far. statistics->size must be sizeof(struct
 * burstline_statistics) before the call. A newer library fills no more than that; an older one
 * fills less and writes how much to size. One thread at a time, as burstline_next().
 */
burstline_status burstline_account(struct burstline_reader *reader,
                                   struct burstline_statistics *statistics);

/**
 * Says in *name what a packet's port stands for, of log number log (burstline_burst.log).
 * BURSTLINE_STATUS_NONE: the publisher has not named it. One thread at a time, as
 * burstline_next().
 */
burstline_status burstline_port_name(struct burstline_reader *reader,
                                     uint32_t log,
                                     uint32_t port,
                                     struct burstline_port *name);

/**
 * One line in English on what went wrong last with this reader; "" if nothing did. With NULL, or a
 * reader that is closed: what went wrong last in this thread without one, as when opening.
 *
 * The text stays as it is until this thread calls this function again, or ends. Never NULL.
 */
const char *burstline_error_text(const struct burstline_reader *reader);

/**
 * Closes a reader and gives back every burst that is held of it: their packets must not be looked
 * at any more. Its pointer is never given again; every use of it from now on is
 * BURSTLINE_STATUS_ERROR_CLOSED. NULL is nothing to close, and fine.
 */
burstline_status burstline_close(struct burstline_reader *reader);

/**
 * Publishes a log as name: a word, or the path of a socket with a slash in it. options may be
 * NULL: BURSTLINE_PUBLISH_OPTIONS_INIT. On success *writer is one to be ended with
 * burstline_finish(), else NULL.
 *
 * What goes wrong with a writer is said by burstline_error_text(NULL). It starts a thread, which
 * lets readers in.
 */
burstline_status burstline_publish(const char *name,
                                   const struct burstline_publish_options *options,
                                   struct burstline_writer **writer);

/**
 * Says what a port stands for, before its first packet: what its packets start with, and its name,
 * of up to 58 bytes. Ports that nothing was said of have the link type of the options.
 */
burstline_status burstline_writer_port(struct burstline_writer *writer,
                                       uint32_t port,
                                       uint32_t link_type,
                                       const char *name);

/**
 * Copies count packets into the log and publishes them together. Says in *written, which may be
 * NULL, how many were published.
 *
 * BURSTLINE_STATUS_NONE: the log was full for as long as options.wait_ms, because a lossless
 * reader holds it; the packets from *written on are counted as full. An error: nothing of packet
 * *written or a later one was looked at. One thread at a time. Costs no system call, but to wake
 * readers.
 */
burstline_status burstline_write(struct burstline_writer *writer,
                                 const struct burstline_packet_to_write *packets,
                                 uint64_t count,
                                 uint64_t *written);

/**
 * Says in *statistics what became of the packets so far. statistics->size must be
 * sizeof(struct burstline_writer_statistics) before the call. One thread at a time.
 */
burstline_status burstline_writer_account(struct burstline_writer *writer,
                                          struct burstline_writer_statistics *statistics);

/**
 * Ends a writer: readers get what was published, and then BURSTLINE_STATUS_END. Waits up to 1 s
 * for readers to come to the end. Its pointer is never given again. NULL is nothing to end, and
 * fine.
 */
burstline_status burstline_finish(struct burstline_writer *writer);

/**
 * Says in *flow where a packet goes: length bytes from the link header on, which starts as
 * link_type says. BURSTLINE_STATUS_NONE: it is not IP, or too short to say; *flow is zeros.
 *
 * Any thread may call, with any bytes. Costs some tens of ns; the hash of the worklist is cheaper.
 */
burstline_status burstline_packet_flow(uint32_t link_type,
                                       const uint8_t *bytes,
                                       uint64_t length,
                                       struct burstline_flow *flow);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

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
