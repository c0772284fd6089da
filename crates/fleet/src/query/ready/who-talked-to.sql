/* Everybody who exchanged packets with one address. */
SELECT CASE WHEN src_ip = '{address}' THEN dst_ip ELSE src_ip END AS peer, protocol,
  CASE WHEN src_ip = '{address}' THEN dst_port ELSE src_port END AS peer_port,
  count(*) AS records, sum(packets) AS packets, sum(bytes) AS bytes, min(first_ns) AS first_ns,
  max(last_ns) AS last_ns, min(flow_id) AS a_flow_id
FROM flows WHERE src_ip = '{address}' OR dst_ip = '{address}'
GROUP BY CASE WHEN src_ip = '{address}' THEN dst_ip ELSE src_ip END, protocol,
  CASE WHEN src_ip = '{address}' THEN dst_port ELSE src_port END
ORDER BY bytes DESC, peer, protocol, peer_port LIMIT {limit}
