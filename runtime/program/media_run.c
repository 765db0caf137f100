/* media-run: runs the kernels of a bundle on raw files, with nothing but the kernel of the system below it. */
#include "bytes.h"
#include "media_engine.h"
#include "memory.h"
#include "options.h"
#include "os.h"
#include "program.h"
#include "self_test.h"
#include "text.h"

enum { DONE = 0, BAD = 1, USAGE = 2, ENVIRONMENT = 3, REFUSED = 4 };

struct job {
    MediaEngine *engine;
    MediaTensor inputs[MAX_TENSORS], outputs[MAX_TENSORS];
    struct kf_bytes input_files[MAX_TENSORS], output_buffers[MAX_TENSORS];
    const char *output_paths[MAX_TENSORS];
    MediaEngineInfo info;
};

static int complain(const char *what, const char *why, int status) {
    struct text t = {.fd = 2};
    text_add(&t, "media-run: ");
    text_add(&t, what);
    text_add(&t, ": ");
    text_add(&t, why);
    text_line(&t);
    return status;
}

static int status_of(int code) {
    switch (code) {
    case MEDIA_OK: return DONE;
    case MEDIA_E_ARGUMENT:
    case MEDIA_E_VERSION:
    case MEDIA_E_TARGET: return USAGE;
    case MEDIA_E_NO_MEMORY:
    case MEDIA_E_SYSTEM: return ENVIRONMENT;
    case MEDIA_E_ABI:
    case MEDIA_E_IR_VERSION:
    case MEDIA_E_MACHINE:
    case MEDIA_E_CPU: return REFUSED;
    default: return BAD;
    }
}

static int complain_code(const MediaError *error) {
    struct text t = {.fd = 2};
    text_add(&t, "media-run: E");
    text_number(&t, (uint64_t)error->code);
    text_add(&t, " ");
    text_add(&t, media_code_name(error->code));
    text_add(&t, ": ");
    text_add(&t, error->message);
    text_line(&t);
    return status_of(error->code);
}

static int list_tensor(const char *direction, const MediaTensorInfo *n) {
    struct text t = {.fd = 1};
    text_add(&t, direction);
    text_add(&t, " ");
    text_add(&t, n->name);
    text_add(&t, " f32 ");
    if (!n->rank) text_add(&t, "scalar");
    for (uint32_t k = 0; k < n->rank; k++) {
        if (k) text_add(&t, "x");
        text_number(&t, (uint64_t)n->dims[k]);
    }
    text_add(&t, " ");
    text_number(&t, n->bytes);
    return text_line(&t);
}

static int list_number(const char *name, uint64_t value) {
    struct text t = {.fd = 1};
    text_add(&t, name);
    text_add(&t, " ");
    text_number(&t, value);
    return text_line(&t);
}

static int list(const struct job *job) {
    struct text t = {.fd = 1};
    text_add(&t, "target ");
    text_add(&t, job->info.target);
    int failed = text_line(&t); /* zero, or a negative errno: any of them makes the sum of bits negative */
    text_add(&t, "ir ");
    text_number(&t, job->info.ir_version >> 24);
    text_add(&t, ".");
    text_number(&t, job->info.ir_version >> 12 & 4095);
    text_add(&t, ".");
    text_number(&t, job->info.ir_version & 4095);
    failed |= text_line(&t);
    failed |= list_number("abi", job->info.abi_version);
    failed |= list_number("operations", job->info.operations);
    failed |= list_number("functions", job->info.functions);
    failed |= list_number("arena_bytes", job->info.arena_bytes);
    failed |= list_number("weights_bytes", job->info.weights_bytes);
    failed |= list_number("kernel_bytes", job->info.kernel_bytes);
    for (uint32_t d = MEDIA_INPUT; d <= MEDIA_OUTPUT; d++) {
        MediaTensorInfo n = MEDIA_TENSOR_INFO_INIT;
        for (uint32_t k = 0; media_engine_describe(job->engine, d, k, &n) == MEDIA_OK; k++)
            failed |= list_tensor(d == MEDIA_INPUT ? "input" : "output", &n);
    }
    return failed ? complain("standard output", "cannot be written", ENVIRONMENT) : DONE;
}

/* The file of the argument "NAME=FILE" for this name, or null.  Names may hold any character, so the name decides. */
static const char *file_of(const char *argument, const char *name) {
    size_t n = kf_length(name);
    for (size_t k = 0; k < n; k++)
        if (argument[k] != name[k]) return NULL;
    return argument[n] == '=' && argument[n + 1] ? argument + n + 1 : NULL;
}

static const char *find(const char *const *arguments, unsigned count, const char *name) {
    for (unsigned k = 0; k < count; k++) {
        const char *file = file_of(arguments[k], name);
        if (file) return file;
    }
    return NULL;
}

/* Every argument must name a tensor of this direction, and no two the same. */
static int check_names(const struct job *job, uint32_t direction, const char *const *arguments, unsigned count) {
    for (unsigned k = 0; k < count; k++) {
        MediaTensorInfo n = MEDIA_TENSOR_INFO_INIT;
        int known = 0;
        for (uint32_t i = 0; media_engine_describe(job->engine, direction, i, &n) == MEDIA_OK; i++) {
            if (!file_of(arguments[k], n.name)) continue;
            known = 1;
            if (find(arguments, k, n.name)) return complain(n.name, "given twice", USAGE);
        }
        if (!known)
            return complain(arguments[k], "the model has no such tensor (see --list), or it is not NAME=FILE", USAGE);
    }
    return DONE;
}

static int take_inputs(struct job *job, const struct options *o) {
    for (uint32_t k = 0; k < job->info.inputs; k++) {
        MediaTensorInfo n = MEDIA_TENSOR_INFO_INIT;
        MediaError error = MEDIA_ERROR_INIT;
        media_engine_describe(job->engine, MEDIA_INPUT, k, &n);
        const char *path = find(o->inputs, o->n_inputs, n.name);
        if (!path) return complain(n.name, "no --input gives a file for this input", USAGE);
        int code = kf_read_file(-1, path, n.bytes, &job->input_files[k], &error); /* not one byte too many */
        if (code == MEDIA_E_SYSTEM || code == MEDIA_E_NOT_FOUND || code == MEDIA_E_NOT_A_FILE)
            return complain("--input", error.message, ENVIRONMENT);
        if (code) return complain("--input", error.message, status_of(code));
        job->inputs[k] = (MediaTensor){.size = sizeof(MediaTensor),
                                       .version = MEDIA_API_VERSION,
                                       .data = job->input_files[k].at,
                                       .bytes = job->input_files[k].size};
    }
    return DONE;
}

static int make_outputs(struct job *job, const struct options *o) {
    for (uint32_t k = 0; k < job->info.outputs; k++) {
        MediaTensorInfo n = MEDIA_TENSOR_INFO_INIT;
        media_engine_describe(job->engine, MEDIA_OUTPUT, k, &n);
        job->output_paths[k] = find(o->outputs, o->n_outputs, n.name);
        job->output_buffers[k] = (struct kf_bytes){kf_os_allocate(n.bytes), (size_t)n.bytes};
        if (!job->output_buffers[k].at) return complain(n.name, "no memory for this output", ENVIRONMENT);
        job->outputs[k] = (MediaTensor){.size = sizeof(MediaTensor),
                                        .version = MEDIA_API_VERSION,
                                        .data = job->output_buffers[k].at,
                                        .bytes = n.bytes};
    }
    return DONE;
}

static int write_output(const char *path, const struct kf_bytes *bytes) {
    uint64_t size = 0;
    int fd = kf_os_create(path);
    if (fd < 0) return complain(path, "cannot be created", ENVIRONMENT);
    int regular = kf_os_regular(fd, &size);
    int r = kf_os_write(fd, bytes->at, bytes->size);
    if (kf_os_close(fd) < 0) r = -1;
    if (r >= 0) return DONE;
    if (regular == 1) kf_os_remove(path); /* half a file is worse than none; a device is never removed */
    return complain(path, "cannot be written (disk full?)", ENVIRONMENT);
}

static int write_outputs(const struct job *job) {
    int status = DONE;
    for (uint32_t k = 0; k < job->info.outputs && !status; k++)
        if (job->output_paths[k]) status = write_output(job->output_paths[k], &job->output_buffers[k]);
    return status;
}

static void sort(uint64_t *values, uint64_t n) { /* Shell sort, gaps by thirds */
    uint64_t gap = 1;
    while (gap < n / 3) gap = 3 * gap + 1;
    for (; gap; gap /= 3)
        for (uint64_t k = gap; k < n; k++) {
            uint64_t v = values[k], j = k;
            for (; j >= gap && values[j - gap] > v; j -= gap) values[j] = values[j - gap];
            values[j] = v;
        }
}

static void report(const char *name, uint64_t *times, uint64_t n, struct text *t) {
    sort(times, n);
    text_add(t, " ");
    text_add(t, name);
    text_add(t, "_best_ns=");
    text_number(t, times[0]);
    text_add(t, " ");
    text_add(t, name);
    text_add(t, "_median_ns=");
    text_number(t, times[n / 2]);
}

static int infer(struct job *job) {
    if (media_engine_infer(job->engine, job->inputs, job->outputs) == MEDIA_OK) return DONE;
    MediaError error = MEDIA_ERROR_INIT;
    media_engine_last_error(job->engine, &error);
    return complain_code(&error);
}

static int timed(struct job *job, uint64_t n) {
    size_t bytes = (size_t)n * sizeof(uint64_t);
    uint64_t *wall = kf_os_allocate(bytes), *cpu = kf_os_allocate(bytes);
    if (!wall || !cpu) return complain("--repeat", "no memory for the times", ENVIRONMENT);
    int status = DONE;
    for (uint64_t k = 0; k < n && !status; k++) {
        uint64_t w = kf_os_nanoseconds(KF_CLOCK_MONOTONIC), c = kf_os_nanoseconds(KF_CLOCK_THREAD_CPU);
        status = infer(job);
        cpu[k] = kf_os_nanoseconds(KF_CLOCK_THREAD_CPU) - c;
        wall[k] = kf_os_nanoseconds(KF_CLOCK_MONOTONIC) - w;
    }
    if (status) return status;
    struct text t = {.fd = 1};
    text_add(&t, "time repeat=");
    text_number(&t, n);
    report("wall", wall, n, &t);
    report("cpu", cpu, n, &t);
    return text_line(&t) < 0 ? complain("standard output", "cannot be written", ENVIRONMENT) : DONE;
}

static int work(struct job *job, const struct options *o) {
    int status = check_names(job, MEDIA_INPUT, o->inputs, o->n_inputs);
    if (!status) status = check_names(job, MEDIA_OUTPUT, o->outputs, o->n_outputs);
    if (!status) status = take_inputs(job, o);
    if (!status) status = make_outputs(job, o);
    if (!status) status = o->repeat ? timed(job, o->repeat) : infer(job);
    return status ? status : write_outputs(job);
}

int program_main(int argc, char **argv) {
    struct options o;
    const char *wrong = "", *why = "";
    if (!options_read(argc, argv, &o, &wrong, &why)) return complain(wrong, why, USAGE);
    if (o.help) {
        struct text t = {.fd = 1};
        text_add(&t, options_usage);
        return text_line(&t) < 0 ? ENVIRONMENT : DONE;
    }
    MediaError error = MEDIA_ERROR_INIT;
    MediaConfig config = MEDIA_CONFIG_INIT;
    config.target = o.target;
    config.partitions = (uint32_t)o.partitions;
    config.threads = (uint32_t)o.threads;
    struct job *job = kf_os_allocate(sizeof *job);
    if (!job) return complain("start", "no memory", ENVIRONMENT);
    if (media_engine_open(o.folder, &config, &job->engine, &error)) return complain_code(&error);
    job->info = (MediaEngineInfo)MEDIA_ENGINE_INFO_INIT;
    media_engine_info(job->engine, &job->info);
    if (job->info.inputs > MAX_TENSORS || job->info.outputs > MAX_TENSORS)
        return complain(o.folder, "more tensors than media-run takes", BAD);
    int status = DONE;
    if (o.self_test) status = self_test(job->engine, o.folder, &error) ? complain_code(&error) : DONE;
    else status = o.list ? list(job) : work(job, &o);
    media_engine_destroy(job->engine);
    return status;
}
