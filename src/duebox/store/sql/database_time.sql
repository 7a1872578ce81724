SELECT date_part('epoch', clock_timestamp())
