/* mul: long multiplication, a row for each digit of the second factor, units first.  A row is
 *
 *     585,2+836*4 6*4=24+5=29+0=29 3*4=12+8=20+2=22 8*4=32+5=37+2=39
 *
 * what stands so far (the digits that later rows still change, then those that are settled), the
 * first factor and the digit; then for each digit of the first factor, units first, the product,
 * plus the digit that stood there, plus the carry.  Live are the factors and the last row's head.
 * The long form does it again with the factors exchanged. */
#include "eval/suite_make.h"
#include "eval/trace.h"

enum {
    DIGITS_MAX = 6,
    PRODUCTS_MAX = 5,
};

struct factor {
    uint32_t digits[DIGITS_MAX]; /* units first */
    uint32_t width;
    size_t at; /* of the highest digit, where it was last written */
};

/* What stands: open digits, units first, and settled ones. */
struct rows {
    uint32_t open[DIGITS_MAX];
    uint32_t settled[DIGITS_MAX];
    uint32_t settled_count;
    size_t open_at, settled_at; /* of the highest digits */
};

static void draw_factor(struct gp_trace *trace, struct factor *factor, uint32_t width)
{
    factor->width = width;
    for (uint32_t i = 0; i < width; i++)
        factor->digits[i] = gp_trace_draw(trace, i + 1 == width ? 1 : 0, 9);
}

static void put_factor(struct gp_trace *trace, struct factor *factor, bool known)
{
    if (known)
        gp_trace_read(trace, factor->at, factor->width);
    size_t at = trace->length;
    for (uint32_t i = factor->width; i-- > 0;)
        gp_trace_put(trace, "%u", factor->digits[i]);
    factor->at = at;
}

static void put_standing(struct gp_trace *trace, struct rows *rows, uint32_t width)
{
    rows->open_at = trace->length;
    for (uint32_t i = width; i-- > 0;)
        gp_trace_put(trace, "%u", rows->open[i]);
    gp_trace_put(trace, ",");
    size_t at = trace->length;
    if (rows->settled_count > 1)
        gp_trace_read(trace, rows->settled_at, rows->settled_count - 1);
    for (uint32_t i = rows->settled_count; i-- > 0;)
        gp_trace_put(trace, "%u", rows->settled[i]);
    rows->settled_at = at;
}

static void put_row(struct gp_trace *trace, struct rows *rows, struct factor *a,
                    const struct factor *b, uint32_t row)
{
    uint32_t carry = 0, digit = b->digits[row];

    put_standing(trace, rows, a->width);
    gp_trace_put(trace, "+");
    put_factor(trace, a, true);
    gp_trace_read(trace, b->at + b->width - 1 - row, 1);
    gp_trace_put(trace, "*%u ", digit);
    size_t at = trace->length;
    for (uint32_t i = 0; i < a->width; i++) {
        uint32_t product = a->digits[i] * digit, sum = product + rows->open[i];
        gp_trace_read(trace, a->at + a->width - 1 - i, 1);
        gp_trace_put(trace, "%u*%u=%02u", a->digits[i], digit, product);
        gp_trace_read(trace, rows->open_at + a->width - 1 - i, 1);
        gp_trace_put(trace, "+%u=%02u+%u=%02u ", rows->open[i], sum, carry, sum + carry);
        uint32_t stays = (sum + carry) % 10;
        if (i == 0)
            rows->settled[rows->settled_count++] = stays;
        else
            rows->open[i - 1] = stays;
        carry = (sum + carry) / 10;
    }
    rows->open[a->width - 1] = carry;
    gp_trace_put(trace, "\n");
    /* Scratch is live until its line ends. */
    gp_trace_read(trace, at, trace->length - at);
}

/* The product's digits into `product`, units first; returns how many, without zeros in front. */
static uint32_t multiply(struct gp_trace *trace, struct factor *a, struct factor *b,
                         uint32_t product[2 * DIGITS_MAX])
{
    struct rows rows = {0};
    uint32_t count = 0;

    put_factor(trace, a, true);
    gp_trace_put(trace, "*");
    put_factor(trace, b, true);
    gp_trace_put(trace, "\n");
    for (uint32_t row = 0; row < b->width; row++)
        put_row(trace, &rows, a, b, row);
    put_standing(trace, &rows, a->width);
    gp_trace_put(trace, "\n");
    gp_trace_read(trace, rows.open_at, trace->length - rows.open_at);
    for (uint32_t i = 0; i < rows.settled_count; i++)
        product[count++] = rows.settled[i];
    for (uint32_t i = 0; i < a->width; i++)
        product[count++] = rows.open[i];
    while (count > 1 && product[count - 1] == 0)
        count--;
    return count;
}

static void put_product(struct gp_trace *trace, const uint32_t *product, uint32_t count)
{
    while (count-- > 0)
        gp_trace_put(trace, "%u", product[count]);
}

struct product {
    uint32_t digits[2 * DIGITS_MAX]; /* units first */
    uint32_t count;
    size_t at; /* where it was last written */
};

/* The first count products; all but a new last one are read from where they were. */
static void put_products(struct gp_trace *trace, struct product *products, uint32_t count,
                         bool last_is_new)
{
    for (uint32_t i = 0; i < count; i++) {
        struct product *product = &products[i];
        if (i + 1 < count || !last_is_new)
            gp_trace_read(trace, product->at, product->count);
        gp_trace_put(trace, i ? " " : "");
        product->at = trace->length;
        put_product(trace, product->digits, product->count);
    }
}

int gp_make_mul(uint64_t seed, double difficulty, enum gp_form form, struct gp_problem *out)
{
    struct gp_trace trace;
    struct factor a[PRODUCTS_MAX], b[PRODUCTS_MAX];
    struct product products[PRODUCTS_MAX];
    bool longer = form == GP_FORM_LONG;

    gp_trace_begin(&trace, seed, difficulty, form);
    uint32_t count = longer ? gp_trace_size(&trace, 3, 3, 3, PRODUCTS_MAX) : 1;
    gp_trace_put(&trace, "Multiply");
    for (uint32_t i = 0; i < count; i++) {
        draw_factor(&trace, &a[i],
                    gp_trace_size(&trace, 2, 3, longer ? 3 : 4, longer ? 4 : DIGITS_MAX));
        draw_factor(&trace, &b[i],
                    gp_trace_size(&trace, 2, 3, longer ? 3 : 4, longer ? 4 : DIGITS_MAX));
        gp_trace_put(&trace, " ");
        put_factor(&trace, &a[i], false);
        gp_trace_put(&trace, "*");
        put_factor(&trace, &b[i], false);
    }
    gp_trace_put(&trace, longer ? " and check." : ".");

    gp_trace_thought(&trace);
    for (uint32_t i = 0; i < count; i++) {
        products[i].count = multiply(&trace, &a[i], &b[i], products[i].digits);
        if (longer)
            products[i].count = multiply(&trace, &b[i], &a[i], products[i].digits);
        /* All products so far, so that the last such line is the answer. */
        gp_trace_put(&trace, "!");
        put_products(&trace, products, i + 1, true);
        gp_trace_put(&trace, "\n");
    }
    gp_trace_answer(&trace);
    put_products(&trace, products, count, false);
    return gp_trace_end(&trace, out);
}
