-- Store which delivery is about to run for the last time, because workers were lost while running it.
UPDATE duebox_worker SET suspect = %(delivery)s WHERE id = %(lease)s
