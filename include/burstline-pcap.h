/*
 * What libburstline-pcap has besides libpcap's functions: verdicts of a program in line.
 *
 * A handle of the device burst:NAME?verdict=pass gives a verdict on each packet that
 * `burstline bounce A B --inline NAME` forwards. The program has a packet from when it is given it
 * (by its callback, or by pcap_next_ex) until the callback returns, or it asks for the next packet
 * or closes the handle. Then the packet gets the verdict of the device's name, unless one of these
 * functions has given another.
 *
 * Both are weak: a program runs with the real libpcap, too, where they are null.
 */
#ifndef BURSTLINE_PCAP_H
#define BURSTLINE_PCAP_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The same numbers as in burstline.h. */
#ifndef BURSTLINE_VERDICT_PASS
#define BURSTLINE_VERDICT_PASS 1      /* it goes on as it is */
#define BURSTLINE_VERDICT_DROP 2      /* it ends here */
#define BURSTLINE_VERDICT_REJECT 4    /* it ends here, and its sender gets an answer */
#define BURSTLINE_VERDICT_PASS_FLOW 5 /* it goes on, and all later ones of its flow, unseen */
#endif

struct pcap; /* pcap_t */

/* Gives the packet that the program has this verdict: 0, or -1 and pcap_geterr() says why not. */
int burstline_pcap_verdict(struct pcap *pcap, int verdict) __attribute__((weak));

/*
 * Sends other bytes in its place, 14 to 65535 from the link header on. They are copied. -1 also
 * where earlier replacements have yet to leave and there is no room: it may be tried again.
 */
int burstline_pcap_replace(struct pcap *pcap, const void *bytes, size_t length)
    __attribute__((weak));

#ifdef __cplusplus
}
#endif

#endif
