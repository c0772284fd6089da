/* Decides on the packets of burstline bounce --inline: drops those that contain a text, and passes
 * the others.
 *
 *     verdict NAME TEXT
 *
 * With --inline 'NAME?workers=N' there is a log for each worker; if one thread is not enough, run
 * one of these for each log, with options.log.
 */
#include <burstline.h>

#include <inttypes.h>
#include <stdio.h>

static int has_text(const unsigned char *packet, uint32_t length, const char *text) {
    size_t wanted = strlen(text);
    for (size_t at = 0; at + wanted <= length; at++) {
        if (memcmp(packet + at, text, wanted) == 0)
            return 1;
    }
    return 0;
}

int main(int count, char **words) {
    if (count != 3) {
        fprintf(stderr, "usage: verdict NAME TEXT\n");
        return 2;
    }
    struct burstline_options options = BURSTLINE_OPTIONS_INIT;
    options.verdicts = BURSTLINE_VERDICTS;
    struct burstline_reader *reader;
    if (burstline_open(words[1], &options, &reader) != BURSTLINE_STATUS_OK) {
        fprintf(stderr, "verdict: %s\n", burstline_error_text(NULL));
        return 1;
    }
    printf("reading %s\n", words[1]);
    fflush(stdout);

    uint64_t passed = 0, dropped = 0;
    struct burstline_burst burst;
    burstline_status status;
    while ((status = burstline_next(reader, BURSTLINE_FOREVER, &burst)) == BURSTLINE_STATUS_OK) {
        uint32_t from = 0; /* packets from here on have no verdict yet */
        for (uint32_t i = 0; i < burst.count && status == BURSTLINE_STATUS_OK; i++) {
            if (!has_text(burstline_packet(&burst, i), burstline_packet_length(&burst, i), words[2]))
                continue;
            if (i > from) /* one call for all before it */
                status = burstline_verdict(reader, &burst, from, i - from, BURSTLINE_VERDICT_PASS);
            if (status == BURSTLINE_STATUS_OK)
                status = burstline_verdict(reader, &burst, i, 1, BURSTLINE_VERDICT_DROP);
            passed += i - from;
            dropped++;
            from = i + 1;
        }
        if (status == BURSTLINE_STATUS_OK && from < burst.count)
            status = burstline_verdict(reader, &burst, from, burst.count - from, BURSTLINE_VERDICT_PASS);
        passed += burst.count - from;
        if (status != BURSTLINE_STATUS_OK)
            break;
        burstline_release(reader, &burst);
    }
    if (status < 0)
        fprintf(stderr, "verdict: %s\n", burstline_error_text(reader));

    struct burstline_statistics seen;
    seen.size = sizeof seen;
    burstline_account(reader, &seen);
    printf("passed %" PRIu64 "\ndropped %" PRIu64 "\n", passed, dropped);
    printf("missed %" PRIu64 "\n", seen.missed);
    burstline_close(reader);
    return status < 0;
}
