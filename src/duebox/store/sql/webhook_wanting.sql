-- How many enabled endpoints subscribe to a public event; matched as in the function duebox_fan_out.
SELECT count(*) FROM duebox_webhook_endpoint endpoint
WHERE endpoint.disabled_at IS NULL
  AND (%(organization)s::text IS NULL OR endpoint.organization = %(organization)s)
  AND EXISTS (
      SELECT FROM jsonb_array_elements_text(endpoint.types) pattern
      WHERE %(kind)s LIKE replace(replace(pattern, '_', '\_'), '*', '%%')
  )
