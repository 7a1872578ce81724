-- Whether there is a change that is not planned yet.
SELECT EXISTS (SELECT FROM duebox_row_change)
