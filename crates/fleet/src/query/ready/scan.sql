/* Who tried many addresses or ports and mostly got no answer, or a reset. */
SELECT src_ip, count(DISTINCT dst_ip) AS addresses, count(DISTINCT dst_port) AS ports,
  count(*) AS attempts,
  sum(CASE WHEN packets_back = 0 OR end_reason = 'rst' THEN 1 ELSE 0 END) AS refused,
  min(first_ns) AS first_ns, max(last_ns) AS last_ns
FROM flows GROUP BY src_ip
HAVING (count(DISTINCT dst_ip) >= 20 OR count(DISTINCT dst_port) >= 20)
  AND 2 * sum(CASE WHEN packets_back = 0 OR end_reason = 'rst' THEN 1 ELSE 0 END) >= count(*)
ORDER BY refused DESC, src_ip LIMIT {limit}
