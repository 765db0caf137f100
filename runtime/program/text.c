#include "text.h"

#include "os.h"

void text_add(struct text *t, const char *what) {
    while (*what && t->length < sizeof t->bytes - 1) t->bytes[t->length++] = *what++;
}

void text_number(struct text *t, uint64_t value) {
    char digits[21];
    size_t at = sizeof digits - 1;
    digits[at] = 0;
    do digits[--at] = (char)('0' + value % 10);
    while (value /= 10);
    text_add(t, digits + at);
}

/* No division: not every machine has one for float, and a library function is not at hand. */
void text_real(struct text *t, float value) {
    int exponent = 0;
    if (value != value || value > 3e38f) {
        text_add(t, value != value ? "nan" : "inf");
        return;
    }
    for (; value >= 10.0f; exponent++) value *= 0.1f;
    for (; value > 0.0f && value < 1.0f; exponent--) value *= 10.0f;
    uint32_t digits = (uint32_t)(value * 1000.0f + 0.5f);
    if (digits >= 10000) {
        digits = 1000;
        exponent++;
    }
    char text[] = {(char)('0' + digits / 1000), '.', (char)('0' + digits / 100 % 10), (char)('0' + digits / 10 % 10),
                   (char)('0' + digits % 10), 0};
    text_add(t, text);
    if (!exponent) return;
    text_add(t, exponent < 0 ? "e-" : "e");
    text_number(t, (uint64_t)(exponent < 0 ? -exponent : exponent));
}

int text_line(struct text *t) {
    t->bytes[t->length++] = '\n';
    int r = kf_os_write(t->fd, t->bytes, t->length);
    t->length = 0;
    return r;
}

int text_parse(const char *digits, uint64_t *value) {
    uint64_t v = 0;
    unsigned n = 0;
    for (; digits[n] >= '0' && digits[n] <= '9' && n < 18; n++) v = v * 10 + (uint64_t)(digits[n] - '0');
    *value = v;
    return n > 0 && digits[n] == 0;
}
