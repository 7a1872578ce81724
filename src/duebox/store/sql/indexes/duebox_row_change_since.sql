CREATE INDEX duebox_row_change_since ON duebox_row_change (transaction_id);
