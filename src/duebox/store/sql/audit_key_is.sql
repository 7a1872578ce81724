-- Whether the triggers have this key.
SELECT EXISTS (SELECT FROM duebox_audit_key WHERE purpose = %(purpose)s AND inner_pad = decode(%(inner)s, 'hex'))
