#ifndef KF_DIGEST_H
#define KF_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define KF_BLOB_PATH_BYTES 78 /* "blobs/sha256/" and 64 hex digits, terminated */

void kf_sha256(const uint8_t *from, size_t bytes, uint8_t *digest); /* crypto.zig */
int kf_digest_works(void);                                          /* the known answer of FIPS 180-4 */
int kf_digest_is(const void *from, size_t bytes, const uint8_t wanted[32]);
void kf_blob_path(char path[KF_BLOB_PATH_BYTES], const uint8_t digest[32]);

#endif
