/* Counts packets published under a name, until the log ends or Ctrl-C.
 *
 *     count NAME [oldest] [lossless] [inplace] [nofollow]
 */
#define _POSIX_C_SOURCE 200809L

#include <burstline.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

static volatile sig_atomic_t is_interrupted;

static void interrupt(int signal) {
    (void)signal;
    is_interrupted = 1;
}

/* Handles one word of the command line. */
static int choose(struct burstline_options *options, const char *word) {
    if (strcmp(word, "oldest") == 0)
        options->start = BURSTLINE_FROM_OLDEST;
    else if (strcmp(word, "lossless") == 0)
        options->policy = BURSTLINE_LOSSLESS;
    else if (strcmp(word, "inplace") == 0)
        options->trust = BURSTLINE_TRUST_OWN_USER; /* trusts publishers of our own user */
    else if (strcmp(word, "nofollow") == 0)
        options->restarts = BURSTLINE_NO_FOLLOW;
    else
        return 0;
    return 1;
}

int main(int count, char **words) {
    struct burstline_options options = BURSTLINE_OPTIONS_INIT;
    for (int i = 2; i < count; i++) {
        if (!choose(&options, words[i]))
            count = 0;
    }
    if (count < 2) {
        fprintf(stderr, "usage: count NAME [oldest] [lossless] [inplace] [nofollow]\n");
        return 2;
    }
    struct burstline_reader *reader;
    if (burstline_open(words[1], &options, &reader) != BURSTLINE_STATUS_OK) {
        fprintf(stderr, "count: %s\n", burstline_error_text(NULL));
        return 1;
    }
    struct sigaction action = {.sa_handler = interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    printf("reading %s\n", words[1]);
    fflush(stdout);

    uint64_t packets = 0, bytes = 0;
    struct burstline_burst burst;
    burstline_status status = BURSTLINE_STATUS_OK;
    while (status >= 0 && status != BURSTLINE_STATUS_END && !is_interrupted) {
        /* A timeout, so that Ctrl-C is checked even if no packets arrive. */
        status = burstline_next(reader, 100000000, &burst);
        if (status != BURSTLINE_STATUS_OK)
            continue;
        packets += burst.count;
        /* The order does not matter for a sum: the worklist is read as it is in memory. */
        for (uint32_t i = 0; i < burst.count; i++)
            bytes += burstline_desc_length(&burst.worklist[i]);
        status = burstline_release(reader, &burst);
    }
    if (status < 0)
        fprintf(stderr, "count: %s\n", burstline_error_text(reader));

    struct burstline_statistics seen;
    seen.size = sizeof seen;
    burstline_account(reader, &seen);
    printf("packets %" PRIu64 "\nbytes %" PRIu64 "\n", packets, bytes);
    printf("offered %" PRIu64 "\nmissed %" PRIu64 "\n", seen.offered, seen.missed);
    printf("lag %" PRIu64 "\nwriter_down %" PRIu64 "\n", seen.lag, seen.writer_down);
    printf("epoch %" PRIu64 "\n", seen.epoch);
    burstline_close(reader);
    const int is_over = status == BURSTLINE_STATUS_END;
    return status < 0 || (is_over && seen.offered != seen.delivered + seen.missed);
}
