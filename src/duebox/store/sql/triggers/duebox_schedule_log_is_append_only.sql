CREATE OR REPLACE TRIGGER duebox_schedule_log_is_append_only BEFORE UPDATE ON duebox_schedule_log
    FOR EACH STATEMENT EXECUTE FUNCTION duebox_refuse_update();
