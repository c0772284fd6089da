/* Minutes in which a port lost packets. Records that were open together saw the same loss, so the
   largest number of one record is what was lost at least. */
SELECT sensor, port, first_ns - first_ns % 60000000000 AS minute_ns, count(*) AS records,
  max(losses) AS lost_at_least
FROM flows WHERE losses > 0
GROUP BY sensor, port, first_ns - first_ns % 60000000000
ORDER BY lost_at_least DESC, sensor, port, minute_ns LIMIT {limit}
