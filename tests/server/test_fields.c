/* Bodies, their fields, refusals, events, keys: the parts of a request that need no model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "server/answer.h"
#include "server/fields.h"
#include "server/keys.h"
#include "server/limits.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static json_t *parse(const char *text)
{
    struct gp_refusal refusal;
    json_t *json = NULL;

    if (gp_body_parse(text, strlen(text), &json, &refusal))
        fail_msg("%s: %s", text, refusal.why.message);
    return json;
}

static void bodies_are_one_object(void **state)
{
    static const char *const bad[] = {"",
                                      "[]",
                                      "1",
                                      "null",
                                      "{",
                                      "{}{}",
                                      "{\"a\":}",
                                      "{'a':1}",
                                      "{\"a\":1,\"a\":2}",
                                      "{\"a\":\"\\u0000\"}",
                                      "{\"a\":\"\\ud800\"}",
                                      "{\"a\":1e999}",
                                      "{\"a\":9223372036854775808}",
                                      "{\"a\":\"\xff\"}",
                                      "\xef\xbb\xbf{}"};
    struct gp_refusal refusal;
    json_t *json;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(gp_body_parse(bad[i], strlen(bad[i]), &json, &refusal), GP_EINVAL);
        assert_int_equal(refusal.status, 400);
        assert_ptr_equal(strstr(refusal.why.message, "body: "), refusal.why.message);
        /* The refusal itself can be sent. */
        json_t *error = gp_refusal_json(&refusal);
        char *text = gp_answer_dump(error);
        assert_non_null(text);
        free(text);
        json_decref(error);
    }
    json_decref(parse(" {\"a\":\"\\ud83d\\ude00\"} \n"));
}

static void depth_is_counted_before_anything_recurses(void **state)
{
    char text[2 * GP_LIMIT_JSON_DEPTH + 64];
    struct gp_refusal refusal;
    json_t *json;

    (void)state;
    for (uint32_t depth = GP_LIMIT_JSON_DEPTH - 2; depth < GP_LIMIT_JSON_DEPTH + 2; depth++) {
        size_t at = (size_t)snprintf(text, sizeof text, "{\"a\":");

        memset(text + at, '[', depth);
        memset(text + at + depth, ']', depth);
        text[at + 2 * depth] = '}';
        int rc = gp_body_parse(text, at + 2 * depth + 1, &json, &refusal);

        assert_int_equal(rc == GP_OK, depth + 1 <= GP_LIMIT_JSON_DEPTH);
        if (!rc)
            json_decref(json);
    }
    /* Brackets of a string are text, also behind an escaped quote. */
    size_t at = (size_t)snprintf(text, sizeof text, "{\"a\":\"\\\"");
    memset(text + at, '[', GP_LIMIT_JSON_DEPTH + 1);
    memcpy(text + at + GP_LIMIT_JSON_DEPTH + 1, "\"}", 3);
    json_decref(parse(text));
}

static void values_are_counted_before_any_is_kept(void **state)
{
    size_t length = 2u * GP_LIMIT_JSON_VALUES + 16;
    char *text = malloc(length);
    struct gp_refusal refusal;
    json_t *json;

    (void)state;
    for (uint32_t count = GP_LIMIT_JSON_VALUES; count <= GP_LIMIT_JSON_VALUES + 1; count++) {
        size_t at = (size_t)snprintf(text, length, "{\"a\":[");

        for (uint32_t i = 0; i < count; i++) {
            text[at++] = '1';
            text[at++] = ',';
        }
        at += (size_t)snprintf(text + at - 1, length - at + 1, "]}") - 1;
        int rc = gp_body_parse(text, at, &json, &refusal);

        assert_int_equal(rc == GP_OK, count == GP_LIMIT_JSON_VALUES);
        if (!rc)
            json_decref(json);
    }
    free(text);
}

static void fields_name_themselves(void **state)
{
    json_t *body = parse("{\"t\":true,\"i\":5,\"f\":0.5,\"s\":\"word\",\"n\":null}");
    struct gp_refusal refusal;
    bool flag = false;
    int64_t whole = -7;
    uint32_t narrow = 3;
    double real = 2;
    float single = 2;
    int word = -1;

    (void)state;
    assert_int_equal(gp_field_bool(body, "t", &flag, &refusal), GP_OK);
    assert_true(flag);
    assert_int_equal(gp_field_int(body, "i", 0, 9, &whole, &refusal), GP_OK);
    assert_int_equal(whole, 5);
    assert_int_equal(gp_field_uint(body, "n", 0, 9, &narrow, &refusal), GP_OK);
    assert_int_equal(narrow, 3);
    assert_int_equal(gp_field_double(body, "i", 0, 5, false, &real, &refusal), GP_OK);
    assert_true(real == 5);
    assert_int_equal(gp_field_float(body, "f", 0, 1, true, &single, &refusal), GP_OK);
    assert_true(single == 0.5f);
    assert_int_equal(gp_field_word(body, "s", "a|word|b", &word, &refusal), GP_OK);
    assert_int_equal(word, 1);
    assert_null(gp_field(body, "n"));

    assert_int_equal(gp_field_bool(body, "i", &flag, &refusal), GP_EINVAL);
    assert_string_equal(refusal.param, "i");
    assert_int_equal(gp_field_int(body, "f", 0, 9, &whole, &refusal), GP_EINVAL);
    assert_int_equal(gp_field_int(body, "i", 6, 9, &whole, &refusal), GP_EINVAL);
    assert_int_equal(gp_field_double(body, "f", 0.5, 1, true, &real, &refusal), GP_EINVAL);
    assert_int_equal(gp_field_double(body, "s", 0, 1, false, &real, &refusal), GP_EINVAL);
    assert_int_equal(gp_field_word(body, "s", "wor|words|", &word, &refusal), GP_EINVAL);
    assert_int_equal(gp_field_word(body, "i", "a|b", &word, &refusal), GP_EINVAL);
    assert_true(whole == 5 && word == 1 && real == 5);
    json_decref(body);
}

/* A bound that is open stays open when the number becomes a float. */
static void floats_do_not_round_onto_an_open_bound(void **state)
{
    json_t *body = parse("{\"p\":1e-60}");
    struct gp_refusal refusal;
    float p = 1;

    (void)state;
    assert_int_equal(gp_field_float(body, "p", 0, 1, true, &p, &refusal), GP_EINVAL);
    assert_int_equal(gp_field_float(body, "p", 0, 1, false, &p, &refusal), GP_OK);
    assert_true(p == 0);
    json_decref(body);
}

static void ids_are_checked_one_by_one(void **state)
{
    static const char *const bad[] = {"[-1]",  "[10]",        "[1.0]", "[\"1\"]", "[null]",
                                      "[[1]]", "[1,2,3,4,5]", "{}",    "\"1\"",   "[4294967296]"};
    struct gp_refusal refusal;
    uint64_t live = gp_mem_live();
    uint32_t count;
    int32_t *ids;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        json_t *array = json_loads(bad[i], JSON_DECODE_ANY, NULL);

        assert_int_equal(gp_field_ids(array, "x", 10, 4, &ids, &count, &refusal), GP_EINVAL);
        assert_string_equal(refusal.param, "x");
        json_decref(array);
    }
    json_t *array = json_loads("[0,9,3]", 0, NULL);
    assert_int_equal(gp_field_ids(array, "x", 10, 4, &ids, &count, &refusal), GP_OK);
    assert_true(count == 3 && ids[0] == 0 && ids[1] == 9 && ids[2] == 3);
    gp_mem_free(ids);
    json_decref(array);
    assert_int_equal(gp_mem_live(), live);
}

static void refusals_have_openais_shape(void **state)
{
    static const struct {
        int status;
        const char *type;
    } types[] = {{400, "invalid_request_error"}, {401, "authentication_error"},
                 {404, "not_found_error"},       {405, "invalid_request_error"},
                 {413, "invalid_request_error"}, {500, "server_error"},
                 {501, "not_supported_error"},   {503, "unavailable_error"}};
    struct gp_refusal refusal;

    (void)state;
    for (size_t i = 0; i < COUNT(types); i++) {
        assert_int_equal(gp_refuse(&refusal, types[i].status, "n", "n: %s", "a\x01\xff"),
                         GP_EINVAL);
        json_t *json = gp_refusal_json(&refusal), *error = json_object_get(json, "error");

        assert_string_equal(json_string_value(json_object_get(error, "message")), "n: a??");
        assert_string_equal(json_string_value(json_object_get(error, "type")), types[i].type);
        assert_string_equal(json_string_value(json_object_get(error, "param")), "n");
        assert_int_equal(json_integer_value(json_object_get(error, "code")), types[i].status);
        json_decref(json);
    }
    (void)gp_refuse(&refusal, 400, NULL, "x");
    json_t *json = gp_refusal_json(&refusal);
    assert_true(json_is_null(json_object_get(json_object_get(json, "error"), "param")));
    json_decref(json);
}

static void an_event_is_one_frame(void **state)
{
    json_t *json = json_pack("{s:s, s:f}", "text", "a\n\ndata: b\r", "real", 0.1);
    struct gp_buffer out = {0};

    (void)state;
    gp_answer_event(json, &out);
    assert_string_equal(out.bytes, "data: {\"text\":\"a\\n\\ndata: b\\r\",\"real\":0.1}\n\n");
    json_decref(json);
    gp_buffer_clear(&out);
    gp_answer_event(NULL, &out);
    assert_true(out.failed);
    gp_buffer_free(&out);
}

static void bytes_that_are_no_text_are_spelled(void **state)
{
    static const struct {
        const char *bytes, *text;
    } pairs[] = {
        {"ok", "ok"}, {"\xf0\x9f", "bytes:\\xf0\\x9f"}, {"\xc3\xa9", "\xc3\xa9"}, {"", ""}};

    (void)state;
    for (size_t i = 0; i < COUNT(pairs); i++) {
        json_t *json = gp_answer_bytes(pairs[i].bytes, strlen(pairs[i].bytes));

        assert_string_equal(json_string_value(json), pairs[i].text);
        json_decref(json);
    }
}

static void buffers_keep_what_was_added(void **state)
{
    struct gp_buffer buffer = {0};
    uint64_t live = gp_mem_live();

    (void)state;
    for (int i = 0; i < 1000; i++)
        gp_buffer_print(&buffer, "%04d", i);
    assert_int_equal(buffer.length, 4000);
    gp_buffer_drop(&buffer, 3996);
    assert_string_equal(buffer.bytes, "0999");
    gp_mem_refuse_at(1);
    gp_buffer_add(&buffer, (char[100000]){0}, 100000);
    gp_mem_refuse_at(0);
    assert_true(buffer.failed);
    assert_string_equal(buffer.bytes, "0999");
    gp_buffer_free(&buffer);
    assert_int_equal(gp_mem_live(), live);
}

static void keys_are_known_whole(void **state)
{
    static const char *const wrong[] = {"", "a", "alph", "alphaa", "Alpha", "beta ", "gamma"};
    char longest[GP_LIMIT_KEY_BYTES + 2] = {0};
    struct gp_keys keys = {0};

    (void)state;
    assert_false(gp_keys_have(&keys, ""));
    assert_int_equal(gp_keys_add(&keys, "alpha", 5, NULL), GP_OK);
    assert_int_equal(gp_keys_add(&keys, "beta", 4, NULL), GP_OK);
    memset(longest, 'x', GP_LIMIT_KEY_BYTES);
    assert_int_equal(gp_keys_add(&keys, longest, GP_LIMIT_KEY_BYTES, NULL), GP_OK);
    assert_int_equal(gp_keys_add(&keys, longest, GP_LIMIT_KEY_BYTES + 1, NULL), GP_EINVAL);
    assert_int_equal(gp_keys_add(&keys, "", 0, NULL), GP_EINVAL);
    assert_int_equal(gp_keys_add(&keys, "a b", 3, NULL), GP_EINVAL);
    assert_true(gp_keys_have(&keys, "alpha") && gp_keys_have(&keys, "beta"));
    assert_true(gp_keys_have(&keys, longest));
    longest[GP_LIMIT_KEY_BYTES] = 'x';
    assert_false(gp_keys_have(&keys, longest));
    for (size_t i = 0; i < COUNT(wrong); i++)
        assert_false(gp_keys_have(&keys, wrong[i]));
    gp_keys_free(&keys);
}

static void key_files_are_read_line_by_line(void **state)
{
    char path[] = "/tmp/growpage-keys-XXXXXX";
    struct gp_keys keys = {0};
    struct gp_error err;
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");

    (void)state;
    fputs("# comment\n\n  one  \ntwo\r\nthree", file);
    fclose(file);
    assert_int_equal(gp_keys_read(&keys, path, &err), GP_OK);
    assert_int_equal(keys.count, 3);
    assert_true(gp_keys_have(&keys, "one") && gp_keys_have(&keys, "two") &&
                gp_keys_have(&keys, "three"));
    gp_keys_free(&keys);
    file = fopen(path, "w");
    fputs("good\nnot good\n", file);
    fclose(file);
    assert_int_equal(gp_keys_read(&keys, path, &err), GP_EINVAL);
    assert_non_null(strstr(err.message, "line 2"));
    gp_keys_free(&keys);
    unlink(path);
    assert_int_equal(gp_keys_read(&keys, path, &err), GP_EIO);
    gp_keys_free(&keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_are_one_object),
        cmocka_unit_test(depth_is_counted_before_anything_recurses),
        cmocka_unit_test(values_are_counted_before_any_is_kept),
        cmocka_unit_test(fields_name_themselves),
        cmocka_unit_test(floats_do_not_round_onto_an_open_bound),
        cmocka_unit_test(ids_are_checked_one_by_one),
        cmocka_unit_test(refusals_have_openais_shape),
        cmocka_unit_test(an_event_is_one_frame),
        cmocka_unit_test(bytes_that_are_no_text_are_spelled),
        cmocka_unit_test(buffers_keep_what_was_added),
        cmocka_unit_test(keys_are_known_whole),
        cmocka_unit_test(key_files_are_read_line_by_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
