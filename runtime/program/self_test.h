/* media-run --self-test: the golden vectors of a bundle on this device. */
#ifndef KF_SELF_TEST_H
#define KF_SELF_TEST_H

#include "media_engine.h"

/* Runs every case of the payload that the engine took out of this folder and prints a line for each output.
 * MEDIA_E_GOLDEN when a value is outside its tolerance. */
int self_test(MediaEngine *engine, const char *folder, MediaError *error);

#endif
