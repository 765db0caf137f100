/* The command line of media-run. */
#ifndef KF_OPTIONS_H
#define KF_OPTIONS_H

#include <stdint.h>

#define MAX_TENSORS 256 /* as many as a payload may have: KF_MAX_TENSORS */

struct options {
    const char *folder, *target;
    const char *inputs[MAX_TENSORS], *outputs[MAX_TENSORS]; /* each NAME=FILE */
    unsigned n_inputs, n_outputs;
    uint64_t repeat, partitions, threads; /* 0 = not given */
    int list, self_test, help;
};

/* 1, or 0 with *wrong naming the argument and *why saying what about it. */
int options_read(int argc, char **argv, struct options *o, const char **wrong, const char **why);

extern const char options_usage[];

#endif
