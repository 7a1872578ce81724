CREATE OR REPLACE TRIGGER duebox_event_is_immutable BEFORE UPDATE ON duebox_event
    FOR EACH STATEMENT EXECUTE FUNCTION duebox_refuse_update();
