-- A role that can read the key can test guesses of a hashed value.
REVOKE ALL ON duebox_audit_key FROM PUBLIC;
