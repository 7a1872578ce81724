DELETE FROM duebox_rollup WHERE span = 0 AND kind = 'progress' AND name = %(name)s AND minute <> %(minute)s
