-- Note which delivery is about to run on its last chance, because workers were lost while holding it.
UPDATE duebox_worker SET suspect = %(delivery)s WHERE id = %(lease)s
