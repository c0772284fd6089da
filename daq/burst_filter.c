/* SPDX-License-Identifier: GPL-2.0-only
 *
 * See burst_filter.h. libpcap is loaded when the first filter is set, so a host without filters
 * needs none. It stays loaded. */
#include "burst_filter.h"

#include "burst_core.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* More than any packet has. */
#define SNAPLEN 262144
/* Source: pcap/pcap.h of libpcap 1.10, PCAP_NETMASK_UNKNOWN. */
#define NETMASK_UNKNOWN 0xffffffffu

/* Source: pcap/bpf.h of libpcap 1.10. */
struct program {
    unsigned count;
    void *instructions;
};

struct burst_filter {
    struct program program;
};

/* Functions of libpcap. */
static struct {
    void *(*open_dead)(int, int);
    void (*close)(void *);
    char *(*geterr)(void *);
    int (*compile)(void *, struct program *, const char *, int, uint32_t);
    void (*freecode)(struct program *);
    unsigned (*run)(const void *, const uint8_t *, unsigned, unsigned);
    bool is_there;
} pcap;

/* One function; ISO C has no conversion of dlsym's pointer, POSIX has this one. */
static bool find(void *library, const char *name, void *function) {
    void *found = dlsym(library, name);
    *(void **)function = found;
    return found != NULL;
}

static void load(void) {
    static const char *const names[] = {"libpcap.so.0.8", "libpcap.so.1", "libpcap.so"};
    void *library = NULL;
    for (unsigned i = 0; library == NULL && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    pcap.is_there = library != NULL && find(library, "pcap_open_dead", &pcap.open_dead) &&
                    find(library, "pcap_close", &pcap.close) &&
                    find(library, "pcap_geterr", &pcap.geterr) &&
                    find(library, "pcap_compile", &pcap.compile) &&
                    find(library, "pcap_freecode", &pcap.freecode) &&
                    find(library, "bpf_filter", &pcap.run);
}

struct burst_filter *burst_filter_new(const char *text, int datalink, char *error) {
    static pthread_once_t is_loaded = PTHREAD_ONCE_INIT;
    pthread_once(&is_loaded, load);
    if (!pcap.is_there) {
        snprintf(error, BURST_ERROR_BYTES, "a filter needs libpcap: apt-get install libpcap0.8");
        return NULL;
    }
    struct burst_filter *filter = calloc(1, sizeof *filter);
    void *dead = pcap.open_dead(datalink, SNAPLEN);
    bool is_compiled = false;
    if (filter == NULL || dead == NULL) {
        snprintf(error, BURST_ERROR_BYTES, "out of memory");
    } else {
        is_compiled = pcap.compile(dead, &filter->program, text, 1, NETMASK_UNKNOWN) == 0;
        if (!is_compiled)
            snprintf(error, BURST_ERROR_BYTES, "filter `%.100s`: %.120s", text, pcap.geterr(dead));
    }
    if (dead != NULL)
        pcap.close(dead);
    if (is_compiled)
        return filter;
    free(filter);
    return NULL;
}

void burst_filter_free(struct burst_filter *filter) {
    if (filter == NULL)
        return;
    pcap.freecode(&filter->program);
    free(filter);
}

bool burst_filter_wants(const struct burst_filter *filter, const uint8_t *bytes, uint32_t length,
                        uint32_t wire_length) {
    return pcap.run(filter->program.instructions, bytes, wire_length, length) > 0;
}
