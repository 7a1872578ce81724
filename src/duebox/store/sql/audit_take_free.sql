-- Of some heads hold those until commit that nobody else holds.
SELECT organization FROM duebox_audit_head
WHERE organization = ANY (%(heads)s::text[])
FOR UPDATE SKIP LOCKED
