-- The events with the column names of Debezium's outbox router. For copies and for connectors that use queries.
-- Change-data-capture reads tables, not views: `duebox sql cdc` maps the columns of the table itself.
--
-- PostgreSQL keeps a column as it is while a view shows it. A migration that changes one drops this view first and
-- creates it again.
CREATE OR REPLACE VIEW duebox_outbox AS
SELECT id,
       aggregate_type AS aggregatetype,
       aggregate_id AS aggregateid,
       type,
       data AS payload,
       recorded_at AS timestamp,
       version,
       occurred_at,
       organization,
       correlation_id,
       causation_id,
       actor,
       producer,
       metadata
FROM duebox_event;
