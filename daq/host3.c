/* SPDX-License-Identifier: GPL-2.0-only
 *
 * A host of LibDAQ 3's module interface for the tests. It stands for LibDAQ 3 and Snort 3, which
 * cannot be had here: it loads the module as LibDAQ's loader does (dlopen, the symbol
 * DAQ_MODULE_DATA, version, size, required functions, load), refuses what that refuses, and calls a
 * function that the module leaves out by a default that says so. See host.h.
 *
 * Source of that behaviour: LibDAQ 3.0.25, api/daq_base.c and api/daq_mod_ops.c. */
#include "daq3_interface.h"
#include "host.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Messages that the host asks for at a time, as Snort does by default. */
#define BATCH 64

/* The host's own, which a module sees as a handle. */
struct _daq_module_config {
    const struct host *host;
    unsigned variable;
};
struct _daq_module_instance {
    char error[256];
};

static const DAQ_ModuleAPI_t *module;
static void *context;
static volatile sig_atomic_t is_stopped;

static const char *get_input(DAQ_ModuleConfig_h config) { return config->host->input; }
static int get_snaplen(DAQ_ModuleConfig_h config) { return (void)config, 65535; }
static unsigned get_timeout(DAQ_ModuleConfig_h config) { return (void)config, 200; }
static unsigned get_pool_size(DAQ_ModuleConfig_h config) { return (void)config, 0; }
static unsigned get_instances(DAQ_ModuleConfig_h config) { return config->host->instances; }
static unsigned get_instance(DAQ_ModuleConfig_h config) { return config->host->instance; }

static DAQ_Mode get_mode(DAQ_ModuleConfig_h config) {
    return config->host->is_inline ? DAQ_MODE_INLINE : DAQ_MODE_PASSIVE;
}

static int next_variable(DAQ_ModuleConfig_h config, const char **key, const char **value) {
    const struct host *host = config->host;
    const bool is_there = config->variable < host->variables_count;
    *key = is_there ? host->variables[config->variable].key : NULL;
    *value = is_there ? host->variables[config->variable].value : NULL;
    config->variable++;
    return DAQ_SUCCESS;
}

static int first_variable(DAQ_ModuleConfig_h config, const char **key, const char **value) {
    config->variable = 0;
    return next_variable(config, key, value);
}

static const char *get_variable(DAQ_ModuleConfig_h config, const char *wanted) {
    const char *key, *value;
    first_variable(config, &key, &value);
    while (key != NULL && strcmp(key, wanted) != 0)
        next_variable(config, &key, &value);
    return key != NULL ? value : NULL;
}

static int resolve_subapi(DAQ_ModuleInstance_h instance, struct _daq_instance_api *api) {
    (void)instance, (void)api;
    return DAQ_ERROR_INVAL; /* nothing is around this module */
}

static void set_errbuf(DAQ_ModuleInstance_h instance, const char *format, ...) {
    va_list words;
    va_start(words, format);
    vsnprintf(instance->error, sizeof instance->error, format, words);
    va_end(words);
}

static const DAQ_BaseAPI_t base = {
    .api_version = DAQ_BASE_API_VERSION,
    .api_size = sizeof(DAQ_BaseAPI_t),
    .config_get_input = get_input,
    .config_get_snaplen = get_snaplen,
    .config_get_timeout = get_timeout,
    .config_get_msg_pool_size = get_pool_size,
    .config_get_total_instances = get_instances,
    .config_get_instance_id = get_instance,
    .config_get_mode = get_mode,
    .config_get_variable = get_variable,
    .config_first_variable = first_variable,
    .config_next_variable = next_variable,
    .resolve_subapi = resolve_subapi,
    .set_errbuf = set_errbuf,
};

static void fail(const char *what, const char *text) {
    printf("end %s: %s\n", what, text);
    exit(1);
}

static void *load(const char *folder) {
    char path[512];
    snprintf(path, sizeof path, "%s/daq_burst.so", folder);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        fail("load", dlerror());
    module = dlsym(library, "DAQ_MODULE_DATA");
    if (module == NULL)
        fail("load", dlerror());
    if (module->api_version != DAQ_MODULE_API_VERSION)
        fail("load", "another version of the interface");
    if (module->api_size != sizeof(DAQ_ModuleAPI_t))
        fail("load", "another size of the interface");
    if (module->load == NULL || module->instantiate == NULL || module->destroy == NULL)
        fail("load", "a function is missing");
    if (strcmp(module->name, "burst") != 0)
        fail("load", "another name");
    DAQ_BaseAPI_t older = base;
    older.api_version--;
    if (module->load(&older) == DAQ_SUCCESS)
        fail("load", "takes a host of another version");
    if (module->load(&base) != DAQ_SUCCESS)
        fail("load", "does not take this host");
    return library;
}

static void stop(int signal) {
    (void)signal;
    is_stopped = 1;
    module->interrupt(context);
}

/* What the module says of itself. */
static void ask_for_more(void) {
    const DAQ_VariableDesc_t *variables;
    printf("inject %d\n", module->inject != NULL ? 0 : -DAQ_ERROR_NOTSUP);
    printf("variables %d\n", module->get_variable_descs(&variables));
    printf("capabilities %u\n", module->get_capabilities(context));
    printf("snaplen %d\n", module->get_snaplen(context));
}

static void finalize(struct host *host, const DAQ_Msg_t *message, DAQ_Verdict verdict) {
    if (module->msg_finalize(context, message, verdict) != DAQ_SUCCESS)
        fail("finalize", "a message that is out is refused");
    if (host->is_twice) {
        host->refused += module->msg_finalize(context, message, DAQ_VERDICT_BLOCK) != DAQ_SUCCESS;
        DAQ_Msg_t strange = *message;
        host->refused += module->msg_finalize(context, &strange, DAQ_VERDICT_BLOCK) != DAQ_SUCCESS;
    }
}

/* Decides about the messages of a receive in the order in which they came. */
static void process(struct host *host, const DAQ_Msg_t **messages, unsigned count) {
    DAQ_Verdict verdicts[BATCH];
    for (unsigned i = 0; i < count; i++) {
        const DAQ_PktHdr_t *header = messages[i]->hdr;
        const uint64_t time_us =
            (uint64_t)header->ts.tv_sec * 1000000 + (uint64_t)header->ts.tv_usec;
        verdicts[i] = (DAQ_Verdict)host_decide(host, messages[i]->data, messages[i]->data_len,
                                               time_us);
        if (!host->is_reversed)
            finalize(host, messages[i], verdicts[i]);
    }
    for (unsigned i = count; host->is_reversed && i-- > 0;)
        finalize(host, messages[i], verdicts[i]);
}

static const char *run(struct host *host, struct _daq_module_instance *instance) {
    const DAQ_Msg_t *messages[BATCH];
    DAQ_RecvStatus status = DAQ_RSTAT_OK;
    for (;;) {
        const unsigned count = module->msg_receive(context, BATCH, messages, &status);
        if (host->is_leaving && count > 0) {
            module->stop(context);
            for (unsigned i = 0; i < count; i++)
                finalize(host, messages[i], DAQ_VERDICT_PASS);
            return "left";
        }
        process(host, messages, count);
        if (status == DAQ_RSTAT_EOF)
            return "over";
        if (status == DAQ_RSTAT_ERROR)
            return instance->error;
        if (is_stopped)
            return status == DAQ_RSTAT_INTERRUPTED ? "interrupted" : "stopped";
    }
}

int main(int count, char **words) {
    struct host host;
    struct _daq_module_instance instance = {""};
    host_read(&host, count, words);
    struct _daq_module_config config = {&host, 0};
    void *library = load(host.folder);
    if (module->instantiate(&config, &instance, &context) != DAQ_SUCCESS)
        fail("instantiate", instance.error);
    if (host.filter != NULL && module->set_filter(context, host.filter) != DAQ_SUCCESS)
        fail("filter", instance.error);
    if (module->start(context) != DAQ_SUCCESS)
        fail("start", instance.error);
    host_catch(stop);
    ask_for_more();
    printf("datalink %d\nreading\n", module->get_datalink_type(context));
    fflush(stdout);
    const char *end = run(&host, &instance);

    DAQ_Stats_t stats;
    DAQ_MsgPoolInfo_t pool;
    module->stop(context);
    module->get_stats(context, &stats);
    module->get_msg_pool_info(context, &pool);
    printf("outstanding %d\nnot_free %d\n", (int)stats.packets_outstanding,
           (int)(pool.size - pool.available));
    host_print(&host, stats.hw_packets_received, stats.hw_packets_dropped, stats.packets_received,
               stats.packets_filtered, stats.verdicts, MAX_DAQ_VERDICT, end);
    module->destroy(context);
    module->unload();
    dlclose(library);
    return 0;
}
