/* A kernel object in memory. */
#ifndef KF_IMAGE_H
#define KF_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "bytes.h"
#include "kf_abi.h"

struct kf_image {
    uint8_t *base;
    size_t span;
    const struct kf_table *table; /* in memory that is read-only by now */
    size_t room;                  /* bytes from the table to the end of the initialised data around it */
    uintptr_t exec_low, exec_high;
};

/* Copies the file into a sealed descriptor, compares the digest of what is sealed, and maps that and nothing else.
 * Takes shared objects that need nothing, have a table as entry point and RELATIVE relocations only, no memory that is
 * writable and executable, and nothing writable once loaded. */
int kf_image_load(const struct kf_bytes *file, const uint8_t digest[32], struct kf_image *image, MediaError *error);
void kf_image_unload(struct kf_image *image);

#endif
