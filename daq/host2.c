/* SPDX-License-Identifier: GPL-2.0-only
 *
 * A host of LibDAQ 2 for the tests: the real libdaq loads the module and calls it. See host.h. */
#include "host.h"

#include <daq.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const DAQ_Module_t *module;
static void *instance;
static volatile sig_atomic_t is_stopped;

static void stop(int signal) {
    (void)signal;
    is_stopped = 1;
    daq_breakloop(module, instance);
}

static DAQ_Verdict decide(void *user, const DAQ_PktHdr_t *header, const uint8_t *bytes) {
    const uint64_t time_us = (uint64_t)header->ts.tv_sec * 1000000 + (uint64_t)header->ts.tv_usec;
    return (DAQ_Verdict)host_decide(user, bytes, header->caplen, time_us);
}

static void fail(const char *what, const char *text) {
    printf("end %s: %s\n", what, text);
    exit(1);
}

/* What the module says of itself, and LibDAQ of calls that it does not support. */
static void ask_for_more(void) {
    const uint8_t bytes[60] = {0};
    DAQ_PktHdr_t header;
    memset(&header, 0, sizeof header);
    printf("inject %d\n", -daq_inject(module, instance, &header, bytes, sizeof bytes, 0));
    printf("flow %d\n", -daq_modify_flow(module, instance, &header, NULL));
    printf("capabilities %u\n", daq_get_capabilities(module, instance));
    printf("snaplen %d\n", daq_get_snaplen(module, instance));
}

int main(int count, char **words) {
    struct host host;
    char error[256] = "";
    host_read(&host, count, words);
    const char *folders[] = {host.folder, NULL};
    daq_load_modules(folders);
    module = daq_find_module("burst");
    if (module == NULL)
        fail("load", "libdaq does not take the module");

    DAQ_Config_t config;
    memset(&config, 0, sizeof config);
    config.name = (char *)(uintptr_t)host.input;
    config.snaplen = 65535;
    config.timeout = 200;
    config.mode = host.is_inline ? DAQ_MODE_INLINE : DAQ_MODE_PASSIVE;
    for (unsigned i = 0; i < host.variables_count; i++)
        daq_config_set_value(&config, host.variables[i].key, host.variables[i].value);
    if (daq_initialize(module, &config, &instance, error, sizeof error) != DAQ_SUCCESS)
        fail("initialize", error);
    daq_config_clear_values(&config);
    if (host.filter != NULL && daq_set_filter(module, instance, host.filter) != DAQ_SUCCESS)
        fail("filter", daq_get_error(module, instance));
    if (daq_start(module, instance) != DAQ_SUCCESS)
        fail("start", daq_get_error(module, instance));
    host_catch(stop);
    ask_for_more();
    printf("datalink %d\nreading\n", daq_get_datalink_type(module, instance));
    fflush(stdout);

    int status = DAQ_SUCCESS;
    while (status == DAQ_SUCCESS && !is_stopped)
        status = daq_acquire(module, instance, 0, decide, &host);
    const char *end = "over";
    if (is_stopped)
        end = "interrupted";
    else if (status != DAQ_READFILE_EOF)
        end = daq_get_error(module, instance);
    DAQ_Stats_t stats;
    daq_stop(module, instance);
    daq_get_stats(module, instance, &stats);
    host_print(&host, stats.hw_packets_received, stats.hw_packets_dropped, stats.packets_received,
               stats.packets_filtered, stats.verdicts, MAX_DAQ_VERDICT, end);
    daq_shutdown(module, instance);
    daq_unload_modules();
    return 0;
}
