-- Flow records in ClickHouse, from the Parquet tree of burstline flows. The columns are those of
-- docs/flows.md. scripts/fleet-clickhouse runs every statement in chDB, which is ClickHouse in a
-- process; no server was tried.

CREATE TABLE flows
(
    schema_version Int32,
    sensor LowCardinality(String),
    boot_id LowCardinality(String),
    batch Int64,
    flow_id String,
    port LowCardinality(String),
    first_ns Int64,
    last_ns Int64,
    src_ip String,
    dst_ip String,
    src_port Nullable(Int32),
    dst_port Nullable(Int32),
    protocol Int32,
    vlan Nullable(Int32),
    tunnel Nullable(String),
    src_mac Nullable(String),
    dst_mac Nullable(String),
    packets Int64,
    bytes Int64,
    packets_back Int64,
    bytes_back Int64,
    tcp_flags Int32,
    tcp_flags_back Int32,
    rtt_ns Nullable(Int64),
    retransmissions Int64,
    end_reason LowCardinality(String),
    losses Int64,
    file Nullable(String),
    segment Nullable(Int64),
    packet_number Int64
)
-- A batch that is loaded twice is one batch: SELECT ... FROM flows FINAL.
ENGINE = ReplacingMergeTree
PARTITION BY toDate(fromUnixTimestamp64Nano(first_ns, 'UTC'))
ORDER BY (sensor, boot_id, batch, port, first_ns, flow_id, packet_number);

-- A tree, or the new hours of one.
INSERT INTO flows
SELECT schema_version, sensor, boot_id, batch, flow_id, port, first_ns, last_ns, src_ip, dst_ip,
    src_port, dst_port, protocol, vlan, tunnel, src_mac, dst_mac, packets, bytes, packets_back,
    bytes_back, tcp_flags, tcp_flags_back, rtt_ns, retransmissions, end_reason, losses, file,
    segment, packet_number
FROM file('{tree}/date=*/hour=*/sensor=*/part-*.parquet', Parquet);
