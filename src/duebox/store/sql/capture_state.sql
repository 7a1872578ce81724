-- How far the server is prepared for change-data-capture, and where the table of events is.
SELECT current_setting('wal_level'),
       (SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE pg_class.oid = 'duebox_event'::regclass),
       EXISTS (SELECT FROM pg_publication_rel JOIN pg_publication ON pg_publication.oid = prpubid
               WHERE pubname = %(publication)s AND prrelid = 'duebox_event'::regclass)
