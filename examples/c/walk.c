/* Walks worklist and bytes of each burst, like an application made for contiguous bursts. One
 * address advances from packet to packet; each packet needs only the two words of its desc.
 *
 *     walk NAME [lossless]
 *
 * It adds up all bytes, and counts packets and bytes of each port. It checks what the layout
 * promises: packets lie back to back, from the first to the last, in the order of their times. */
#include <burstline.h>

#include <inttypes.h>
#include <stdio.h>

#define LOGS 64
#define PORTS 256

struct port {
    uint64_t packets;
    uint64_t bytes;
};

struct walk {
    struct port ports[PORTS];
    uint64_t bursts;
    uint64_t packets;
    uint64_t sum;          /* of all bytes of all packets */
    uint64_t cut_short;    /* packets that were longer on the wire */
    uint64_t not_adjacent; /* packets that do not start where the one before ends */
    uint64_t out_of_order; /* packets older than the one before, in their log */
    uint64_t skipped;      /* packet numbers that are missing, in their log */
    uint64_t time_ns[LOGS];
    uint64_t next_packet[LOGS];
    uint64_t epoch[LOGS];
};

static void walk_burst(struct walk *walk, const struct burstline_burst *burst) {
    const uint32_t log = burst->log % LOGS;
    uint64_t time_ns = walk->time_ns[log];
    uint64_t sum = 0;
    /* The oldest packet has the last desc; from there packets go up and descs go down. */
    uint64_t at = burstline_desc_offset(burstline_desc_at(burst, 0));
    for (uint32_t i = 0; i < burst->count; i++) {
        const struct burstline_desc *desc = burstline_desc_at(burst, i);
        const uint8_t *bytes = burst->base + at;
        const uint32_t length = burstline_desc_length(desc);

        walk->not_adjacent += at != burstline_desc_offset(desc);
        for (uint32_t byte = 0; byte < length; byte++)
            sum += bytes[byte];
        struct port *port = &walk->ports[burstline_desc_port(desc)];
        port->packets++;
        port->bytes += length;

        const struct burstline_facts facts = burstline_packet_facts(burst, i);
        walk->out_of_order += facts.time_ns < time_ns;
        walk->cut_short += facts.original_length > length;
        time_ns = facts.time_ns;
        at = burstline_desc_end(desc);
    }
    walk->not_adjacent += at > burst->bytes;
    /* The first burst may start anywhere. */
    if (burst->epoch == walk->epoch[log])
        walk->skipped += burst->first_packet - walk->next_packet[log];
    walk->epoch[log] = burst->epoch;
    walk->next_packet[log] = burst->first_packet + burst->count;
    walk->time_ns[log] = time_ns;
    walk->sum += sum;
    walk->packets += burst->count;
    walk->bursts++;
}

static void print(const struct walk *walk, struct burstline_reader *reader) {
    for (uint32_t number = 0; number < PORTS; number++) {
        const struct port *port = &walk->ports[number];
        struct burstline_port name;
        if (port->packets == 0)
            continue;
        if (burstline_port_name(reader, 0, number, &name) != BURSTLINE_STATUS_OK)
            strcpy(name.name, "?");
        printf("port %" PRIu32 " %s packets %" PRIu64 " bytes %" PRIu64 "\n", number, name.name,
               port->packets, port->bytes);
    }
    printf("bursts %" PRIu64 "\npackets %" PRIu64 "\n", walk->bursts, walk->packets);
    printf("sum %" PRIu64 "\ncut_short %" PRIu64 "\n", walk->sum, walk->cut_short);
    printf("not_adjacent %" PRIu64 "\n", walk->not_adjacent);
    printf("out_of_order %" PRIu64 "\n", walk->out_of_order);
    printf("skipped %" PRIu64 "\n", walk->skipped);
}

int main(int count, char **words) {
    static struct walk walk;
    const int is_lossless = count == 3 && strcmp(words[2], "lossless") == 0;
    if (count != 2 + is_lossless) {
        fprintf(stderr, "usage: walk NAME [lossless]\n");
        return 2;
    }
    struct burstline_options options = BURSTLINE_OPTIONS_INIT;
    options.policy = is_lossless ? BURSTLINE_LOSSLESS : BURSTLINE_LOSSY;
    options.start = BURSTLINE_FROM_OLDEST;
    options.restarts = BURSTLINE_NO_FOLLOW;
    struct burstline_reader *reader;
    if (burstline_open(words[1], &options, &reader) != BURSTLINE_STATUS_OK) {
        fprintf(stderr, "walk: %s\n", burstline_error_text(NULL));
        return 1;
    }
    printf("reading %s\n", words[1]);
    fflush(stdout);
    struct burstline_burst burst;
    burstline_status status;
    while ((status = burstline_next(reader, BURSTLINE_FOREVER, &burst)) == BURSTLINE_STATUS_OK) {
        walk_burst(&walk, &burst);
        burstline_release(reader, &burst);
    }
    if (status < 0)
        fprintf(stderr, "walk: %s\n", burstline_error_text(reader));
    print(&walk, reader);
    struct burstline_statistics seen;
    seen.size = sizeof seen;
    burstline_account(reader, &seen);
    printf("offered %" PRIu64 "\nmissed %" PRIu64 "\n", seen.offered, seen.missed);
    burstline_close(reader);
    const uint64_t wrong = walk.not_adjacent + walk.out_of_order;
    return status < 0 || wrong > 0 || walk.skipped != seen.missed ||
           walk.packets + seen.missed != seen.offered;
}
