/* The addresses that sent and received most bytes. */
WITH pairs AS (
  SELECT src_ip, dst_ip, sum(bytes) AS bytes, sum(bytes_back) AS bytes_back,
    sum(packets) AS packets, count(*) AS records
  FROM flows GROUP BY src_ip, dst_ip
), ends AS (
  SELECT src_ip AS ip, bytes - bytes_back AS sent, bytes_back AS received, packets, records
  FROM pairs
  UNION ALL
  SELECT dst_ip, bytes_back, bytes - bytes_back, packets, records FROM pairs
)
SELECT ip, sum(records) AS records, sum(packets) AS packets, sum(sent) AS bytes_sent,
  sum(received) AS bytes_received, sum(sent + received) AS bytes
FROM ends GROUP BY ip ORDER BY bytes DESC, ip LIMIT {limit}
