DELETE FROM duebox_worker WHERE id = %(lease)s
