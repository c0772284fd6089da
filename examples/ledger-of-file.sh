#!/bin/sh
# The ledger of a recording, by tshark alone: offered = in the file + lost + not asked for.
# `burstline info FILE` prints the same counts. Of a rotation, or of striped files, each file closes by
# itself, and the sums of all are those of the job.
#
#   examples/ledger-of-file.sh x.pcapng
#
# With read_format, tshark dissects the capture file itself and shows its blocks. Each interface
# has final counts in one (Interface Statistics Block): received, lost on the interface, lost in the
# host, accepted by the filter, delivered. Exit code 1: the sum does not close.
set -eu

file=${1:?usage: ledger-of-file.sh FILE}
count=pcapng.options.option.data.interface

packets=$(tshark -r "$file" -T fields -e frame.number 2> /dev/null | wc -l)
# It shows a million items unless told otherwise: the blocks of some 75,000 packets.
tshark -r "$file" -o gui.max_tree_items:2000000000 -X 'read_format:MIME Files Format' -T fields -e $count.received \
    -e $count.dropped -e $count.dropped_by_os -e $count.accepted_by_filter \
    -e $count.delivered_to_user 2> /dev/null |
    awk -F '\t' -v packets="$packets" '
        # Sums the counts of all interfaces, which are separated by commas.
        function sum(list,    part, total, number, at) {
            number = split(list, part, ",")
            for (at = 1; at <= number; at++) total += part[at]
            return total + 0
        }
        { received += sum($1); interface += sum($2); host += sum($3); accepted += sum($4) }
        { delivered += sum($5) }
        END {
            # A generated file has only the counts of its own packets.
            if (received == 0) received = accepted = delivered + interface + host
            unwanted = received - accepted
            printf "offered %d = in the file %d + lost on the interface %d + lost in the host %d",
                received, packets, interface, host
            printf " + not asked for %d\n", unwanted
            rest = received - packets - interface - host - unwanted
            if (rest != 0 || delivered != packets) {
                printf "the sum does not close: %d packets, %d said to be there\n", rest, delivered
                exit 1
            }
        }'
