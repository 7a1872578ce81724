DELETE FROM duebox_rollup WHERE span = 60 AND minute = %(hour)s
