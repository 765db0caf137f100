#ifndef KF_MEMORY_H
#define KF_MEMORY_H

#include <stddef.h>
#include <stdint.h>

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int value, size_t n);
int memcmp(const void *a, const void *b, size_t n);

size_t kf_length(const char *text);
int kf_same(const char *a, const char *b);

#endif
