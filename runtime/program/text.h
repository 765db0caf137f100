/* Lines to a descriptor; one write per line. */
#ifndef KF_TEXT_H
#define KF_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct text {
    int fd;
    size_t length;
    char bytes[1024];
};

void text_add(struct text *t, const char *what);
void text_number(struct text *t, uint64_t value);
void text_real(struct text *t, float value); /* not negative; four digits, such as 1.234e-5 */
int text_line(struct text *t); /* ends the line and writes it; a negative errno on failure */
int text_parse(const char *digits, uint64_t *value); /* decimal, 1 on success */

#endif
