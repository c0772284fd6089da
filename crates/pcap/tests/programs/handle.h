/* The common part of the tests' C programs: libpcap's functions, a program's handle, and a check that
 * reports its location. */
#ifndef HANDLE_H
#define HANDLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

/* Like pcap/pcap.h, which is not installed everywhere. */
typedef struct pcap pcap_t;
struct pcap_pkthdr { struct timeval ts; uint32_t caplen, len; };
struct pcap_stat { unsigned recv, drop, ifdrop; };
struct pcap_if { struct pcap_if *next; char *name, *description; void *addresses; unsigned flags; };
struct bpf_program { unsigned count; void *instructions; };
typedef void handler(unsigned char *, const struct pcap_pkthdr *, const unsigned char *);
pcap_t *pcap_create(const char *, char *);
pcap_t *pcap_open_live(const char *, int, int, int, char *), *pcap_open_dead(int, int);
int pcap_activate(pcap_t *), pcap_set_snaplen(pcap_t *, int), pcap_set_timeout(pcap_t *, int);
int pcap_loop(pcap_t *, int, handler *, unsigned char *);
int pcap_dispatch(pcap_t *, int, handler *, unsigned char *);
const unsigned char *pcap_next(pcap_t *, struct pcap_pkthdr *);
int pcap_next_ex(pcap_t *, struct pcap_pkthdr **, const unsigned char **);
int pcap_stats(pcap_t *, struct pcap_stat *), pcap_datalink(pcap_t *), pcap_snapshot(pcap_t *);
int pcap_compile(pcap_t *, struct bpf_program *, const char *, int, uint32_t);
int pcap_setfilter(pcap_t *, struct bpf_program *), pcap_get_selectable_fd(pcap_t *);
int pcap_setnonblock(pcap_t *, int, char *), pcap_inject(pcap_t *, const void *, size_t);
int pcap_findalldevs(struct pcap_if **, char *);
void pcap_freealldevs(struct pcap_if *);
int pcap_list_datalinks(pcap_t *, int **), pcap_set_datalink(pcap_t *, int);
int pcap_list_tstamp_types(pcap_t *, int **);
void pcap_breakloop(pcap_t *), pcap_close(pcap_t *), pcap_freecode(struct bpf_program *);
void pcap_free_datalinks(int *);
char *pcap_geterr(pcap_t *);
void pcap_perror(pcap_t *, const char *);

#define CHECK(what) do { if (!(what)) { \
    printf("line %d: %s: after %ld: %s\n", __LINE__, #what, seen, handle ? pcap_geterr(handle) : error); \
    exit(1); } } while (0)

static char error[256];
static pcap_t *handle;
static long seen, limit;

#endif
