CREATE OR REPLACE TRIGGER duebox_attempt_is_append_only BEFORE UPDATE ON duebox_attempt
    FOR EACH STATEMENT EXECUTE FUNCTION duebox_refuse_update();
