/* SPDX-License-Identifier: GPL-2.0-only
 *
 * What a host says to an instance: the name of the input, and variables. */
#include "burst_core.h"

#include <burstline.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define FLAG(field) false, offsetof(struct burst_settings, field)

const struct burst_variable burst_variables[] = {
    {"both", "of several instances, each reads both ways of its worker of bounce --both",
     FLAG(is_both)},
    {"lossless", "the publisher waits for this program, where it allows that", FLAG(is_lossless)},
    {"oldest", "begin with the oldest packet that the log still has", FLAG(is_from_oldest)},
    {"once", "end when the publisher is stopped or killed, in place of waiting for the next",
     FLAG(is_once)},
    {"reject", "what is blacklisted gets an answer: a TCP reset, or ICMP", FLAG(is_rejecting)},
    {"trust", "nobody (default): copy and check packets; own, anyone: read them in place", true, 0},
};
const unsigned burst_variables_count = sizeof burst_variables / sizeof *burst_variables;

void burst_settings_init(struct burst_settings *settings) {
    memset(settings, 0, sizeof *settings);
    settings->trust = BURSTLINE_TRUST_NOBODY;
}

void burst_settings_share(struct burst_settings *settings, unsigned index, unsigned count) {
    if (count < 2 || settings->logs_count > 0)
        return;
    settings->logs[settings->logs_count++] = index;
    if (settings->is_both)
        settings->logs[settings->logs_count++] = count + index;
}

/* Reads K or K+L, to the end of the text. */
static bool read_logs(struct burst_settings *settings, const char *text) {
    unsigned count = 0;
    uint32_t logs[BURST_LOGS_MAX];
    do {
        uint32_t number = 0;
        unsigned digits = 0;
        for (; *text >= '0' && *text <= '9'; text++, digits++)
            number = number * 10 + (uint32_t)(*text - '0');
        if (digits == 0 || digits > 5 || count == BURST_LOGS_MAX)
            return false;
        logs[count++] = number;
    } while (*text++ == '+');
    if (text[-1] != '\0')
        return false;
    memcpy(settings->logs, logs, count * sizeof *logs);
    settings->logs_count = count;
    return true;
}

bool burst_settings_name(struct burst_settings *settings, const char *text, char *error) {
    const char *at = text != NULL ? strrchr(text, '@') : NULL;
    size_t length = text != NULL ? strlen(text) : 0;
    settings->logs_count = 0;
    if (at != NULL) {
        length = (size_t)(at - text);
        if (!read_logs(settings, at + 1)) {
            snprintf(error, BURST_ERROR_BYTES, "%.100s: after @ stands a log's number, or up to %d "
                     "of them with + between", text, BURST_LOGS_MAX);
            return false;
        }
    }
    if (length == 0 || length >= sizeof settings->name) {
        snprintf(error, BURST_ERROR_BYTES, "the input is the name of a published log");
        return false;
    }
    memcpy(settings->name, text, length);
    settings->name[length] = '\0';
    return true;
}

static bool read_trust(struct burst_settings *settings, const char *value) {
    static const struct {
        const char *word;
        uint32_t trust;
    } words[] = {{"nobody", BURSTLINE_TRUST_NOBODY},
                 {"own", BURSTLINE_TRUST_OWN_USER},
                 {"anyone", BURSTLINE_TRUST_ANYBODY}};
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(value, words[i].word) == 0) {
            settings->trust = words[i].trust;
            return true;
        }
    }
    return false;
}

bool burst_settings_variable(struct burst_settings *settings, const char *key, const char *value,
                             char *error) {
    size_t end;
    for (unsigned i = 0; i < burst_variables_count; i++) {
        const struct burst_variable *variable = &burst_variables[i];
        if (strcmp(key, variable->name) != 0)
            continue;
        const bool has_value = value != NULL && *value != '\0';
        if (has_value != variable->has_value ||
            (has_value && !read_trust(settings, value))) {
            snprintf(error, BURST_ERROR_BYTES, "%s=%.60s: %s", key, has_value ? value : "",
                     variable->description);
            return false;
        }
        if (!has_value)
            *(bool *)((char *)settings + variable->flag) = true;
        return true;
    }
    end = (size_t)snprintf(error, BURST_ERROR_BYTES, "%.60s is not a variable of burst:", key);
    for (unsigned i = 0; i < burst_variables_count; i++)
        end += (size_t)snprintf(error + end, BURST_ERROR_BYTES - end, "%s %s", i > 0 ? "," : "",
                                burst_variables[i].name);
    return false;
}
