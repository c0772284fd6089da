/* Packets and bits a second, by the minute in which a record began. */
SELECT first_ns - first_ns % 60000000000 AS minute_ns, count(*) AS records,
  sum(packets) / 60.0 AS packets_per_s, sum(bytes) * 8 / 60.0 AS bits_per_s
FROM flows GROUP BY first_ns - first_ns % 60000000000 ORDER BY minute_ns LIMIT {limit}
