/* The few things the runtime asks of the operating system.  No libc: one library then serves every libc, old or new.
 * Functions that return int or int64_t give a negative errno on failure. */
#ifndef KF_OS_H
#define KF_OS_H

#include <stddef.h>
#include <stdint.h>

#define KF_ENOENT 2
#define KF_ENOMEM 12
#define KF_EINVAL 22

enum { KF_READ = 1, KF_WRITE = 2, KF_EXEC = 4 };
enum { KF_CLOCK_MONOTONIC = 1, KF_CLOCK_THREAD_CPU = 3 };

int kf_os_open_folder(const char *path);
int kf_os_open(int folder, const char *path); /* for reading; folder < 0: from the working directory */
int kf_os_create(const char *path);           /* empty, for writing */
int kf_os_regular(int fd, uint64_t *size);    /* 1 and its size, or 0: not a regular file */
int64_t kf_os_read(int fd, void *to, size_t bytes); /* all of it unless the file ends before */
int kf_os_write(int fd, const void *from, size_t bytes);
int kf_os_close(int fd);
void kf_os_remove(const char *path);

int kf_os_memory_file(const char *name);
int kf_os_seal(int fd); /* no more writing, growing, shrinking, writable shared maps */

/* Zeroed pages, or null; at least 64-byte aligned. */
void *kf_os_allocate(uint64_t bytes);
void kf_os_release(void *at, size_t bytes);
void *kf_os_reserve(size_t bytes); /* address space without access */
void kf_os_unmap(void *at, size_t bytes);
void *kf_os_map(int fd, uint64_t offset, size_t bytes, int access); /* private */
int kf_os_map_at(void *at, int fd, uint64_t offset, size_t bytes, int access); /* fd < 0: anonymous */
int kf_os_protect(void *at, size_t bytes, int access);

uint64_t kf_os_nanoseconds(int clock);
int kf_os_random(void *to, size_t bytes);

/* Not on x86-64: the value of an entry of the auxiliary vector (AT_...), 0 where there is none. */
unsigned long kf_os_auxv(unsigned long type);
void kf_os_set_auxv(const unsigned long *auxv); /* called by a program's start */

/* For a question that a processor may answer by a signal: a child process, and its status as wait4 gives it or -1. */
int kf_os_fork(void);
int kf_os_wait(int child);
_Noreturn void kf_os_exit(int status);

int kf_os_process(void); /* its number: another one in a child after fork */

#endif
