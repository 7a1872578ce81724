-- Whether there is a change that is not planned yet.
SELECT EXISTS (SELECT FROM duebox_row_change WHERE transaction_id >= (SELECT duebox_row_changes_from()))
