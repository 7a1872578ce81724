SELECT coalesce(max(id), 0) FROM duebox_attempt
