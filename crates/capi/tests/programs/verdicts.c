/* A reader that gives verdicts, and all its mistakes: each returns a status and decides nothing.
 *
 *     verdicts NAME
 *
 * The publisher expects packets that contain a text to be dropped, and the others to pass. It
 * publishes packets from 100 on after it has taken the verdicts on earlier ones. */
#include "want.h"

#define PASS BURSTLINE_VERDICT_PASS
#define DROP BURSTLINE_VERDICT_DROP

/* None of these is a verdict. */
static void wrong_verdicts(struct burstline_reader *reader, const struct burstline_burst *burst) {
    static const uint8_t bytes[65536];
    const uint32_t count = burst->count;
    WANT(ARGUMENT, burstline_verdict(reader, burst, 0, 0, PASS));
    WANT(ARGUMENT, burstline_verdict(reader, burst, 0, count + 1, PASS));
    WANT(ARGUMENT, burstline_verdict(reader, burst, count, 1, PASS));
    WANT(ARGUMENT, burstline_verdict(reader, burst, UINT32_MAX, UINT32_MAX, PASS));
    has_text(reader, "packets [4294967295, 8589934590) of a burst of ");
    WANT(ARGUMENT, burstline_verdict(reader, burst, 0, 1, 0));
    WANT(ARGUMENT, burstline_verdict(reader, burst, 0, 1, 3)); /* burstline_replace() does that */
    WANT(ARGUMENT, burstline_verdict(reader, burst, 0, 1, 77));
    has_text(reader, "verdict is 77, which is not one of its constants");
    WANT(ARGUMENT, burstline_verdict(reader, NULL, 0, 1, PASS));
    WANT(ARGUMENT, burstline_verdict(NULL, burst, 0, 1, PASS));
    WANT(ARGUMENT, burstline_replace(reader, burst, 0, NULL, 60));
    WANT(ARGUMENT, burstline_replace(reader, burst, 0, bytes, 13));
    WANT(ARGUMENT, burstline_replace(reader, burst, 0, bytes, 65536));
    has_text(reader, "length is 65536: it must be from 14 to 65535");
    WANT(ARGUMENT, burstline_replace(reader, burst, count, bytes, 60));
}

static uint32_t wanted(const struct burstline_burst *burst, uint32_t index) {
    return memcmp(burstline_packet(burst, index) + 50, "bad bytes", 9) == 0 ? DROP : PASS;
}

static void right_verdicts(struct burstline_reader *reader, const struct burstline_burst *burst) {
    for (uint32_t i = 0; i < burst->count; i++)
        WANT(OK, burstline_verdict(reader, burst, i, 1, wanted(burst, i)));
}

int main(int count, char **words) {
    struct burstline_options options = BURSTLINE_OPTIONS_INIT;
    struct burstline_reader *reader, *onlooker, *second;
    struct burstline_burst burst, first, seen;
    burstline_status status;
    int is_late = 0;
    if (count != 2)
        return 2;
    WANT(OK, burstline_open(words[1], NULL, &onlooker));
    options.window = 8;
    options.verdicts = BURSTLINE_VERDICTS;
    WANT(OK, burstline_open(words[1], &options, &reader));
    WANT(BURSTLINE_STATUS_ERROR_REFUSED, burstline_open(words[1], &options, &second));
    WANT(OK, burstline_next(reader, BURSTLINE_FOREVER, &first));
    WANT(OK, burstline_next(onlooker, BURSTLINE_FOREVER, &seen));
    WANT(ARGUMENT, burstline_verdict(onlooker, &seen, 0, 1, DROP));
    has_text(onlooker, "the reader gives no verdicts");
    WANT(NOT_HELD, burstline_verdict(reader, &seen, 0, 1, DROP));
    WANT(OK, burstline_close(onlooker));
    wrong_verdicts(reader, &first);
    right_verdicts(reader, &first);
    while ((status = burstline_next(reader, BURSTLINE_FOREVER, &burst)) == OK) {
        if (burst.first_packet >= 100 && !is_late) {
            /* Taken: another verdict is no error, and changes nothing. */
            WANT(OK, burstline_verdict(reader, &first, 0, first.count, BURSTLINE_VERDICT_REJECT));
            WANT(OK, burstline_release(reader, &first));
            WANT(NOT_HELD, burstline_verdict(reader, &first, 0, 1, DROP));
            is_late = 1;
        }
        right_verdicts(reader, &burst);
        WANT(OK, burstline_release(reader, &burst));
    }
    WANT(BURSTLINE_STATUS_END, status);
    WANT(1, is_late);
    WANT(OK, burstline_close(reader));
    printf("judged\n");
    return 0;
}
