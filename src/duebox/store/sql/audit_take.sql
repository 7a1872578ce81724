-- Hold heads until commit, in the order given. Those that are missing are made.
SELECT organization FROM duebox_audit_open(%(heads)s::text[])
