-- Until when minutes were counted, and until when for the second time.
SELECT name, minute FROM duebox_rollup WHERE span = 0 AND kind = 'progress'
