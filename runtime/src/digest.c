#include "digest.h"

#include "memory.h"

int kf_digest_works(void) { /* SHA-256 of "abc", FIPS 180-4 example */
    static const uint8_t wanted[32] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
                                       0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
                                       0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
    return kf_digest_is("abc", 3, wanted);
}

int kf_digest_is(const void *from, size_t bytes, const uint8_t wanted[32]) {
    uint8_t got[32];
    kf_sha256(from, bytes, got);
    return memcmp(got, wanted, sizeof got) == 0;
}

void kf_blob_path(char path[KF_BLOB_PATH_BYTES], const uint8_t digest[32]) {
    static const char hex[] = "0123456789abcdef";
    memcpy(path, "blobs/sha256/", 13);
    for (int k = 0; k < 32; k++) {
        path[13 + 2 * k] = hex[digest[k] >> 4];
        path[14 + 2 * k] = hex[digest[k] & 15];
    }
    path[77] = 0;
}
