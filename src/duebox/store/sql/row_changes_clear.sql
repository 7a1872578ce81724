-- Forget all changes: every row that they are about is gone, and so are the schedules.
DELETE FROM duebox_row_change
