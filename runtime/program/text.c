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
