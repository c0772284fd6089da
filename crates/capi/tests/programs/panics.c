/* A panic in each function, and one in the middle of a call: the program continues. */
#include <burstline.h>

#include <stdio.h>
#include <stdlib.h>

/* Only in a library with the feature deliberate-panic. */
void burstline_panic(uint32_t place);

static int panics;

/* The status that a panicking call must return. */
#define STOPPED(is_so)                                                                          \
    do {                                                                                        \
        burstline_panic(1);                                                                     \
        if (!(is_so)) {                                                                         \
            printf("line %d: not %s\n", __LINE__, #is_so);                                      \
            exit(1);                                                                            \
        }                                                                                       \
        panics++;                                                                               \
    } while (0)

#define WANT(is_so)                                                                             \
    do {                                                                                        \
        if (!(is_so)) {                                                                         \
            printf("line %d: not %s\n", __LINE__, #is_so);                                      \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)

#define PANIC BURSTLINE_STATUS_ERROR_PANIC

int main(int count, char **words) {
    struct burstline_options options = BURSTLINE_OPTIONS_INIT;
    struct burstline_reader *reader;
    struct burstline_burst burst;
    struct burstline_statistics seen;
    struct burstline_port port;
    if (count != 2)
        return 2;
    options.policy = BURSTLINE_LOSSLESS;
    seen.size = sizeof seen;

    STOPPED(burstline_open(words[1], &options, &reader) == PANIC);
    WANT(strstr(burstline_error_text(NULL), "a panic was stopped: deliberately") != NULL);
    WANT(burstline_open(words[1], &options, &reader) == BURSTLINE_STATUS_OK);
    STOPPED(burstline_next(reader, 0, &burst) == PANIC);
    WANT(burstline_next(reader, BURSTLINE_FOREVER, &burst) == BURSTLINE_STATUS_OK);
    STOPPED(burstline_release(reader, &burst) == PANIC);
    STOPPED(burstline_account(reader, &seen) == PANIC);
    STOPPED(burstline_port_name(reader, 0, 0, &port) == PANIC);
    STOPPED(strlen(burstline_error_text(reader)) > 0);
    STOPPED(strlen(burstline_version()) == 0);
    STOPPED(burstline_abi_version() == BURSTLINE_ABI_VERSION);
    STOPPED(burstline_close(reader) == PANIC);

    /* In the middle of a call: the reader is then broken, and can only be closed. */
    burstline_panic(2);
    WANT(burstline_next(reader, 0, &burst) == PANIC);
    panics++;
    WANT(burstline_next(reader, 0, &burst) == PANIC);
    WANT(burstline_account(reader, &seen) == PANIC);
    WANT(strstr(burstline_error_text(reader), "close it") != NULL);
    WANT(burstline_close(reader) == BURSTLINE_STATUS_OK);
    WANT(burstline_close(reader) == BURSTLINE_STATUS_ERROR_CLOSED);
    printf("%d panics\n", panics);
    return 0;
}
