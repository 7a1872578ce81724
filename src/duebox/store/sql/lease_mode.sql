UPDATE duebox_worker SET mode = %(mode)s, listening = %(listening)s WHERE id = %(lease)s
