/* Shared by the C programs of the tests: a call must return the wanted status, or the program
 * reports it and exits. */
#ifndef WANT_H
#define WANT_H

#include <burstline.h>

#include <stdio.h>
#include <stdlib.h>

#define WANT(wanted, call)                                                                      \
    do {                                                                                        \
        const int found = (int)(call);                                                          \
        if (found != (int)(wanted)) {                                                           \
            printf("line %d: %s is %d and not %s\n", __LINE__, #call, found, #wanted);          \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)

#define OK BURSTLINE_STATUS_OK
#define ARGUMENT BURSTLINE_STATUS_ERROR_ARGUMENT
#define NOT_HELD BURSTLINE_STATUS_ERROR_NOT_HELD

static void has_text(const struct burstline_reader *reader, const char *part) {
    const char *text = burstline_error_text(reader);
    if (strstr(text, part) == NULL) {
        printf("\"%s\" is not in \"%s\"\n", part, text);
        exit(1);
    }
}

#endif
