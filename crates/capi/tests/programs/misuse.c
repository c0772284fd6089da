/* Every mistake of a C program that the library can detect: each returns a status. */
#include "want.h"

#define SAME(name, is_so) typedef char name[(is_so) ? 1 : -1]
SAME(options_layout, sizeof(struct burstline_options) == 32);
SAME(desc_layout, sizeof(struct burstline_desc) == 16);
SAME(facts_layout, sizeof(struct burstline_facts) == 32);
SAME(burst_layout, sizeof(struct burstline_burst) == 64);
SAME(statistics_layout, sizeof(struct burstline_statistics) == 88);
SAME(port_layout, sizeof(struct burstline_port) == 64);
SAME(status_layout, sizeof(burstline_status) == 4);

#define NONE BURSTLINE_STATUS_NONE
#define CLOSED BURSTLINE_STATUS_ERROR_CLOSED

/* No reader is open. */
static void without_a_reader(const char *name) {
    struct burstline_burst burst;
    struct burstline_statistics seen;
    struct burstline_port port;
    struct burstline_reader *reader = NULL;
    struct burstline_reader *nonsense = (struct burstline_reader *)(uintptr_t)12345;
    memset(&burst, 0xff, sizeof burst);
    memset(&seen, 0xff, sizeof seen);
    WANT(0, strlen(burstline_error_text(NULL)));
    WANT(ARGUMENT, burstline_open(NULL, NULL, &reader));
    has_text(NULL, "name is NULL");
    WANT(ARGUMENT, burstline_open(name, NULL, NULL));
    has_text(NULL, "reader is NULL");
    WANT(ARGUMENT, burstline_open("\xff\xfe", NULL, &reader));
    has_text(NULL, "is not UTF-8");
    WANT(ARGUMENT, burstline_next(NULL, 0, &burst));
    WANT(ARGUMENT, burstline_release(NULL, &burst));
    WANT(ARGUMENT, burstline_account(NULL, &seen));
    WANT(ARGUMENT, burstline_port_name(NULL, 0, 0, &port));
    WANT(OK, burstline_close(NULL));
    WANT(CLOSED, burstline_next(nonsense, 0, &burst));
    WANT(CLOSED, burstline_release(nonsense, &burst));
    WANT(CLOSED, burstline_close(nonsense));
    has_text(nonsense, "is closed, or was never open");
}

static void wrong_options(const char *name) {
    struct burstline_options options = BURSTLINE_OPTIONS_INIT;
    struct burstline_reader *reader = (struct burstline_reader *)&options;
    options.size = 0;
    WANT(ARGUMENT, burstline_open(name, &options, &reader));
    WANT(1, reader == NULL);
    has_text(NULL, "options.size is 0,");
    options.size = sizeof options;
    options.window = 9;
    WANT(ARGUMENT, burstline_open(name, &options, &reader));
    has_text(NULL, "options.window is 9");
    options.window = 1;
    options.log = 7;
    WANT(BURSTLINE_STATUS_ERROR_REFUSED, burstline_open(name, &options, &reader));
    has_text(NULL, "it has 1 log, numbered from 0; there is no log 7");
    WANT(BURSTLINE_STATUS_ERROR_ABSENT, burstline_open("/nonexistent/tap", NULL, &reader));
    WANT(ARGUMENT,
         burstline_open(name, (struct burstline_options *)((char *)&options + 1), &reader));
    has_text(NULL, "not aligned");
}

static void wrong_calls(struct burstline_reader *reader) {
    struct burstline_burst burst, copy;
    struct burstline_statistics seen;
    struct burstline_port port;
    WANT(ARGUMENT, burstline_next(reader, 0, NULL));
    has_text(reader, "burst is NULL");
    WANT(ARGUMENT, burstline_release(reader, NULL));
    WANT(ARGUMENT, burstline_account(reader, NULL));
    WANT(ARGUMENT, burstline_port_name(reader, 0, 0, NULL));
    WANT(ARGUMENT, burstline_port_name(reader, 0, 256, &port));
    WANT(ARGUMENT, burstline_port_name(reader, 1, 0, &port));
    has_text(reader, "log 1: this reader has only logs [0, 1)");
    WANT(NONE, burstline_port_name(reader, 0, 200, &port));
    WANT(0, strlen(port.name));
    seen.size = 8;
    WANT(ARGUMENT, burstline_account(reader, &seen));
    has_text(reader, "statistics.size is 8");

    WANT(OK, burstline_next(reader, BURSTLINE_FOREVER, &burst));
    copy = burst;
    WANT(OK, burstline_release(reader, &burst));
    WANT(0, burst.count);
    WANT(NOT_HELD, burstline_release(reader, &burst));
    WANT(NOT_HELD, burstline_release(reader, &copy));
    copy.ticket++;
    WANT(NOT_HELD, burstline_release(reader, &copy));
    memset(&copy, 0xff, sizeof copy);
    WANT(NOT_HELD, burstline_release(reader, &copy));
    has_text(reader, "this burst is not held");
}

/* Bursts of one reader released with another one, and calls after closing. */
static void mixed_up(struct burstline_reader *reader, const char *name) {
    struct burstline_options options = BURSTLINE_OPTIONS_INIT;
    struct burstline_reader *other;
    struct burstline_burst burst, held;
    struct burstline_statistics seen;
    options.start = BURSTLINE_FROM_OLDEST;
    options.trust = BURSTLINE_TRUST_NOBODY;
    WANT(OK, burstline_open(name, &options, &other));
    WANT(OK, burstline_next(other, BURSTLINE_FOREVER, &held));
    WANT(NOT_HELD, burstline_release(reader, &held));
    WANT(BURSTLINE_STATUS_ERROR_WINDOW, burstline_next(other, BURSTLINE_FOREVER, &burst));
    seen.size = sizeof seen;
    WANT(OK, burstline_account(other, &seen));
    WANT(1, seen.held);
    WANT(OK, burstline_close(other));
    WANT(CLOSED, burstline_release(other, &held));
    WANT(CLOSED, burstline_next(other, 0, &burst));
    WANT(CLOSED, burstline_account(other, &seen));
    WANT(CLOSED, burstline_close(other));
    /* Its number is not reused. */
    WANT(OK, burstline_open(name, &options, &reader));
    WANT(CLOSED, burstline_close(other));
    WANT(OK, burstline_close(reader));
}

int main(int count, char **words) {
    struct burstline_options options = BURSTLINE_OPTIONS_INIT;
    struct burstline_reader *reader;
    if (count != 2)
        return 2;
    WANT(BURSTLINE_ABI_VERSION, burstline_abi_version());
    without_a_reader(words[1]);
    wrong_options(words[1]);
    options.policy = BURSTLINE_LOSSLESS;
    WANT(OK, burstline_open(words[1], &options, &reader));
    wrong_calls(reader);
    mixed_up(reader, words[1]);
    WANT(OK, burstline_close(reader));
    printf("misused\n");
    return 0;
}
