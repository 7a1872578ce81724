-- How many rows of each kind are left.
SELECT (SELECT count(*) FROM duebox_delivery WHERE status IN ('dead', 'parked')),
       (SELECT count(*) FROM duebox_event),
       (SELECT count(*) FROM duebox_attempt WHERE outcome NOT IN ('delivered', 'discarded', 'expired')),
       (SELECT count(*) FROM duebox_schedule WHERE status IN ('completed', 'cancelled')),
       (SELECT count(*) FROM duebox_schedule_log),
       (SELECT count(*) FROM duebox_webhook_receipt)
