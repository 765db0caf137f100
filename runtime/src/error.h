/* Filling a MediaError: kf_fail sets code and message, kf_add and kf_add_number extend the message (cut at its end). */
#ifndef KF_ERROR_H
#define KF_ERROR_H

#include "media_engine.h"

int kf_fail(MediaError *error, int code, const char *text); /* returns code */
void kf_add(MediaError *error, const char *text);
void kf_add_number(MediaError *error, uint64_t value);
int kf_fail_about(MediaError *error, int code, const char *name, const char *text); /* "name: text" */
int kf_fail_system(MediaError *error, const char *what, int64_t negative_errno);

#endif
