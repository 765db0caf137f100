/* os.h by Linux system calls. */
#include "os.h"

#include "cpu.h"

#include <asm/stat.h>
#include <asm/unistd.h>
#include <linux/fcntl.h>
#include <linux/memfd.h>
#include <linux/mman.h>
#include <linux/stat.h>

#include "syscall.h"

/* On 32-bit machines the calls with 64-bit sizes have names of their own, and mmap2 counts in units of 4096 bytes. */
#if defined(__NR_fstat64)
#define KF_FSTAT __NR_fstat64
typedef struct stat64 kf_stat;
#else
#define KF_FSTAT __NR_fstat
typedef struct stat kf_stat;
#endif
#if defined(__NR_fcntl64)
#define KF_FCNTL __NR_fcntl64
#else
#define KF_FCNTL __NR_fcntl
#endif
#if defined(__NR_mmap2)
#define KF_MMAP __NR_mmap2
#define KF_OFFSET_UNIT 4096u
#else
#define KF_MMAP __NR_mmap
#define KF_OFFSET_UNIT 1u
#endif

#define FOLLOW_ERRNO(call)                                                                                             \
    long r;                                                                                                            \
    do r = (call);                                                                                                     \
    while (r == -4) /* EINTR */

static int access_bits(int access) {
    return (access & KF_READ ? PROT_READ : 0) | (access & KF_WRITE ? PROT_WRITE : 0) |
           (access & KF_EXEC ? PROT_EXEC | (int)kf_cpu_guarded_pages() : 0);
}

static void *pointer(long result) { return result < 0 && result > -4096 ? (void *)0 : (void *)result; }

int kf_os_open_folder(const char *path) {
    FOLLOW_ERRNO(kf_syscall4(__NR_openat, AT_FDCWD, (long)path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0));
    return (int)r;
}

int kf_os_open(int folder, const char *path) { /* O_NONBLOCK: opening a pipe must not wait for its writer */
    FOLLOW_ERRNO(kf_syscall4(__NR_openat, folder < 0 ? AT_FDCWD : folder, (long)path,
                             O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0));
    return (int)r;
}

int kf_os_create(const char *path) {
    FOLLOW_ERRNO(kf_syscall4(__NR_openat, AT_FDCWD, (long)path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    return (int)r;
}

int kf_os_regular(int fd, uint64_t *size) {
    kf_stat s;
    long r = kf_syscall2(KF_FSTAT, fd, (long)&s);
    if (r < 0) return (int)r;
    *size = (uint64_t)s.st_size;
    return (s.st_mode & S_IFMT) == S_IFREG;
}

int64_t kf_os_read(int fd, void *to, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        FOLLOW_ERRNO(kf_syscall3(__NR_read, fd, (long)to + (long)done, (long)(bytes - done)));
        if (r < 0) return r;
        if (r == 0) break;
        done += (size_t)r;
    }
    return (int64_t)done;
}

int kf_os_write(int fd, const void *from, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        FOLLOW_ERRNO(kf_syscall3(__NR_write, fd, (long)from + (long)done, (long)(bytes - done)));
        if (r < 0) return (int)r;
        done += (size_t)r;
    }
    return 0;
}

int kf_os_close(int fd) { return (int)kf_syscall1(__NR_close, fd); }

void kf_os_remove(const char *path) { kf_syscall3(__NR_unlinkat, AT_FDCWD, (long)path, 0); }

int kf_os_memory_file(const char *name) {
    long r = kf_syscall2(__NR_memfd_create, (long)name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (r == -KF_EINVAL) /* MFD_EXEC is younger than memfd_create; without it the file is executable anyway */
        r = kf_syscall2(__NR_memfd_create, (long)name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return (int)r;
}

int kf_os_seal(int fd) {
    return (int)kf_syscall3(KF_FCNTL, fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
}

static long raw_map(void *at, size_t bytes, int access, int flags, int fd, uint64_t offset) {
    return kf_syscall6(KF_MMAP, (long)at, (long)bytes, access, MAP_PRIVATE | flags, fd,
                       (long)(offset / KF_OFFSET_UNIT));
}

static void *map(void *at, size_t bytes, int access, int flags, int fd, uint64_t offset) {
    return pointer(raw_map(at, bytes, access, flags, fd, offset));
}

void *kf_os_allocate(uint64_t bytes) {
    if (bytes > SIZE_MAX / 2) return (void *)0; /* more than this machine can address */
    return map(0, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS, -1, 0);
}
void kf_os_release(void *at, size_t bytes) { kf_os_unmap(at, bytes); }
void *kf_os_reserve(size_t bytes) { return map(0, bytes, PROT_NONE, MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); }
void *kf_os_map(int fd, uint64_t offset, size_t bytes, int access) {
    return map(0, bytes, access_bits(access), 0, fd, offset);
}

void kf_os_unmap(void *at, size_t bytes) {
    if (at) kf_syscall2(__NR_munmap, (long)at, (long)bytes);
}

int kf_os_map_at(void *at, int fd, uint64_t offset, size_t bytes, int access) {
    long r = raw_map(at, bytes, access_bits(access), MAP_FIXED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, offset);
    if (r == (long)at) return 0;
    return r < 0 && r > -4096 ? (int)r : -KF_EINVAL;
}

int kf_os_protect(void *at, size_t bytes, int access) {
    return (int)kf_syscall3(__NR_mprotect, (long)at, (long)bytes, access_bits(access));
}

uint64_t kf_os_nanoseconds(int clock) {
    struct {
        long tv_sec, tv_nsec; /* of a machine's word: monotonic and thread time never outgrow it */
    } t = {0, 0};
    kf_syscall2(__NR_clock_gettime, clock, (long)&t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int kf_os_random(void *to, size_t bytes) {
    return kf_syscall3(__NR_getrandom, (long)to, (long)bytes, 0) == (long)bytes ? 0 : -KF_EINVAL;
}

#if !defined(__x86_64__) /* where CPUID answers, nobody asks */
/* What the program was started with, where it is a program of ours; read-only after its start. */
__attribute__((section(".data.rel.ro"))) static const unsigned long *volatile given_auxv = 0;

void kf_os_set_auxv(const unsigned long *auxv) { given_auxv = auxv; }

unsigned long kf_os_auxv(unsigned long type) {
    unsigned long pairs[128] = {0};
    const unsigned long *at = given_auxv;
    if (!at) {
        int fd = kf_os_open(-1, "/proc/self/auxv");
        if (fd < 0) return 0;
        int64_t r = kf_os_read(fd, pairs, sizeof pairs - 2 * sizeof *pairs);
        kf_os_close(fd);
        if (r < 0) return 0;
        at = pairs;
    }
    for (; at[0]; at += 2)
        if (at[0] == type) return at[1];
    return 0;
}
#endif

int kf_os_fork(void) { return (int)kf_syscall6(__NR_clone, 17 /* SIGCHLD */, 0, 0, 0, 0, 0); }

int kf_os_wait(int child) {
    int status = -1;
    FOLLOW_ERRNO(kf_syscall4(__NR_wait4, child, (long)&status, 0, 0));
    return r == child ? status : -1;
}

int kf_os_process(void) { return (int)kf_syscall1(__NR_getpid, 0); }

_Noreturn void kf_os_exit(int status) {
    for (;;) kf_syscall1(__NR_exit_group, status);
}
