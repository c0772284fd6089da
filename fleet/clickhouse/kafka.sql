-- Flow records from Kafka, as burstline flows --kafka sends them: a message is a Parquet file of one
-- batch. After fleet/clickhouse/flows.sql, whose table flows gets the rows. Replace {brokers}.
--
-- A message that comes twice is one batch in flows: SELECT ... FROM flows FINAL. No server was tried;
-- scripts/fleet-clickhouse reads messages of a bus in chDB, which has no engine Kafka.

CREATE TABLE flows_from_kafka AS flows
ENGINE = Kafka
SETTINGS kafka_broker_list = '{brokers}', kafka_topic_list = 'burstline.flows',
    kafka_group_name = 'clickhouse', kafka_format = 'Parquet', kafka_num_consumers = 1;

CREATE MATERIALIZED VIEW flows_to_table TO flows AS SELECT * FROM flows_from_kafka;
