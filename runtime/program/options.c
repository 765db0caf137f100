#include "options.h"

#include "media_engine.h"
#include "memory.h"
#include "text.h"

const char options_usage[] =
    "usage: media-run FOLDER [--target NAME] [--input NAME=FILE]... [--output NAME=FILE]... [--list] [--repeat N] "
    "[--partitions N] [--threads N]\n"
    "       media-run FOLDER [--target NAME] [--partitions N] [--threads N] --self-test\n"
    "  FOLDER is a kernel bundle (an OCI image layout with media.idx); files hold raw little-endian values.\n"
    "  --list         the chosen target and the model's inputs and outputs, without running it\n"
    "  --self-test    run the golden vectors of the bundle and compare; 0 only when every value is within its tolerance\n"
    "  --repeat N     run N times and print the best and the median time\n"
    "  --partitions N cut every operation into at least N ranges; the result is the same for every N\n"
    "  --threads N    use N threads, at most 64; the result is the same for every N\n"
    "exit status: 0 done; 1 the bundle or an input is bad; 2 wrong usage; 3 the system refused something (memory, files);\n"
    "             4 this device cannot run the bundle (processor features, machine, IR or ABI version)";

static int number(const char *text, uint64_t most, uint64_t *value) {
    return text_parse(text, value) && *value >= 1 && *value <= most;
}

static int tensor(const char *text, const char **list, unsigned *count) {
    if (*count == MAX_TENSORS) return 0;
    list[(*count)++] = text;
    return 1;
}

/* An option with a value; 0 when the value is out of form, -1 when there is no such option. */
static int valued(struct options *o, const char *name, const char *value) {
    if (kf_same(name, "--target")) return o->target ? 0 : (o->target = value, 1);
    if (kf_same(name, "--input")) return tensor(value, o->inputs, &o->n_inputs);
    if (kf_same(name, "--output")) return tensor(value, o->outputs, &o->n_outputs);
    if (kf_same(name, "--repeat")) return number(value, 1000000, &o->repeat);
    if (kf_same(name, "--partitions")) return number(value, 4096, &o->partitions);
    if (kf_same(name, "--threads")) return number(value, MEDIA_MAX_THREADS, &o->threads);
    return -1;
}

int options_read(int argc, char **argv, struct options *o, const char **wrong, const char **why) {
    memset(o, 0, sizeof *o);
    for (int k = 1; k < argc; k++) {
        const char *a = argv[k];
        *wrong = a;
        if (kf_same(a, "--list")) {
            o->list = 1;
            continue;
        }
        if (kf_same(a, "--self-test")) {
            o->self_test = 1;
            continue;
        }
        if (kf_same(a, "--help")) {
            o->help = 1;
            return 1;
        }
        if (a[0] == '-' && a[1] == '-') {
            static const char nothing[] = "";
            int r = valued(o, a, k + 1 < argc ? argv[k + 1] : nothing);
            *why = r < 0           ? "no such option"
                   : k + 1 == argc ? "needs a value"
                                   : "its value is out of range or given twice";
            if (r <= 0 || k + 1 == argc) return 0;
            k++;
            continue;
        }
        *why = "only one folder can be given";
        if (o->folder) return 0;
        o->folder = a;
    }
    *wrong = "--self-test";
    *why = "takes no inputs, outputs, --list or --repeat";
    if (o->self_test && (o->n_inputs || o->n_outputs || o->list || o->repeat)) return 0;
    *wrong = "FOLDER";
    *why = "is missing";
    return o->folder != 0;
}
