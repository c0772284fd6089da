/* Publishes packets that it makes, for burstline and every other reader of published logs:
 *
 *     publish NAME COUNT
 *
 * and prints the number of packets of each flow. Read them with: burstline count log:NAME
 */
#include <burstline.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 64, BYTES = 60, PORTS = 4 };

/* An Ethernet frame with IPv4 and UDP, from port 1000 + n % PORTS. */
static void fill(unsigned char *frame, uint64_t n) {
    static const unsigned char start[] = {
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0,             /* Ethernet */
        0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, /* IPv4 */
        3, 0, 0, 53, 0, 26,                                   /* UDP */
    };
    memset(frame, 0, BYTES);
    memcpy(frame, start, sizeof start);
    frame[35] = (unsigned char)(232 + n % PORTS);
}

int main(int count, char **words) {
    if (count != 3) {
        fprintf(stderr, "usage: publish NAME COUNT\n");
        return 2;
    }
    struct burstline_publish_options options = BURSTLINE_PUBLISH_OPTIONS_INIT;
    options.lossless = 1;
    options.wait_ms = 5000;
    struct burstline_writer *writer;
    if (burstline_publish(words[1], &options, &writer) != BURSTLINE_STATUS_OK) {
        fprintf(stderr, "publish: %s\n", burstline_error_text(NULL));
        return 1;
    }
    burstline_writer_port(writer, 0, 1, "made");
    printf("publishing %s\n", words[1]);
    fflush(stdout);
    getchar(); /* a line, or the end of the input, starts it */

    static unsigned char frames[BATCH][BYTES];
    static struct burstline_packet_to_write packets[BATCH];
    const uint64_t total = strtoull(words[2], NULL, 10);
    uint64_t of_port[PORTS] = {0};
    burstline_status status = BURSTLINE_STATUS_OK;
    for (uint64_t done = 0; done < total && status == BURSTLINE_STATUS_OK;) {
        uint64_t batch = 0, written;
        for (; batch < BATCH && done + batch < total; batch++) {
            fill(frames[batch], done + batch);
            packets[batch].bytes = frames[batch];
            packets[batch].length = BYTES;
            struct burstline_flow flow;
            if (burstline_packet_flow(1, frames[batch], BYTES, &flow) == BURSTLINE_STATUS_OK)
                of_port[(flow.source_port - 1000) % PORTS]++;
        }
        status = burstline_write(writer, packets, batch, &written);
        done += written;
    }
    if (status < BURSTLINE_STATUS_OK)
        fprintf(stderr, "publish: %s\n", burstline_error_text(NULL));
    struct burstline_writer_statistics found = {.size = sizeof found};
    burstline_writer_account(writer, &found);
    for (int port = 0; port < PORTS; port++)
        printf("flow_%d %" PRIu64 "\n", 1000 + port, of_port[port]);
    printf("offered %" PRIu64 "\npublished %" PRIu64 "\nfull %" PRIu64 "\n", found.offered,
           found.published, found.full);
    burstline_finish(writer);
    return status == BURSTLINE_STATUS_OK ? 0 : 1;
}
