-- Those of the given types of which rows have changes that are not planned yet.
SELECT followed.source FROM unnest(%(sources)s::text[]) AS followed (source)
WHERE EXISTS (SELECT FROM duebox_row_change c WHERE c.source = followed.source)
