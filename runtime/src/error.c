#include "error.h"

#include "memory.h"
#include "os.h"

#define MOST_NAME 150u

int kf_fail(MediaError *error, int code, const char *text) {
    error->code = code;
    error->message[0] = 0;
    kf_add(error, text);
    return code;
}

void kf_add(MediaError *error, const char *text) {
    size_t at = kf_length(error->message);
    while (*text && at < sizeof error->message - 1) error->message[at++] = *text++;
    error->message[at] = 0;
}

void kf_add_number(MediaError *error, uint64_t value) {
    char digits[21];
    size_t at = sizeof digits - 1;
    digits[at] = 0;
    do digits[--at] = (char)('0' + value % 10);
    while (value /= 10);
    kf_add(error, digits + at);
}

/* A name that leaves room for what is said of it: of a long one only the end, from the start of a character on. */
static void add_name(MediaError *error, const char *name) {
    size_t length = kf_length(name);
    if (length > MOST_NAME) {
        name += length - MOST_NAME;
        while ((*name & 0xc0) == 0x80) name++;
        kf_add(error, "...");
    }
    kf_add(error, name);
}

int kf_fail_about(MediaError *error, int code, const char *name, const char *text) {
    kf_fail(error, code, "");
    add_name(error, name);
    kf_add(error, ": ");
    kf_add(error, text);
    return code;
}

int kf_fail_system(MediaError *error, const char *what, int64_t negative_errno) {
    kf_fail(error, negative_errno == -KF_ENOMEM ? MEDIA_E_NO_MEMORY : MEDIA_E_SYSTEM, "");
    add_name(error, what);
    kf_add(error, ": errno ");
    kf_add_number(error, (uint64_t)-negative_errno);
    return error->code;
}
