INSERT INTO duebox_rollup (span, kind, name, minute) VALUES (0, 'progress', %(name)s, %(minute)s) ON CONFLICT DO NOTHING
