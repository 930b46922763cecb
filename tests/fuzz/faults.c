/* Loaded before libc (LD_PRELOAD): counts the calls by which a process changes files below a folder, and lets the n-th of
 * them fail, or kills the process in the middle of it. Nothing is counted before `tdt_fault_arm`.
 *
 * A call that is killed in has been done by half: half of the bytes are written; every second other call is done, the rest
 * is not.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST 65536
enum { OPEN = 1, WRITE = 2, FSYNC = 4, RENAME = 8, LINK = 16, UNLINK = 32, TRUNCATE = 64, MKDIR = 128, LOCK = 256 };

static atomic_long counted, by_kind[9];
static long target;
static int failure, sticky, kinds;
static char below[4096];
static size_t length;
static char ours[MOST];

/* folder: the one; nth: the call that fails, 0 for none; error: errno, or 0 to be killed; stays: all later ones fail too;
 * which: of these kinds of calls. */
void tdt_fault_arm(const char *folder, long nth, int error, int stays, int which) {
    strncpy(below, folder, sizeof below - 1);
    length = strlen(below);
    target = nth, failure = error, sticky = stays, kinds = which;
    atomic_store(&counted, 0);
    for (int kind = 0; kind < 9; kind++) atomic_store(&by_kind[kind], 0);
}

/* How many calls of the kinds there were. */
long tdt_fault_counted(int which) {
    long sum = 0;
    for (int kind = 0; kind < 9; kind++) sum += which >> kind & 1 ? atomic_load(&by_kind[kind]) : 0;
    return sum;
}

static int is_below(const char *path) { return length && path && strncmp(path, below, length) == 0; }
static int is_ours(int file) { return length && file >= 0 && file < MOST && ours[file]; }

/* 0: go on; 1: fail; 2: this is the call to be killed in. */
static int due(int kind) {
    atomic_fetch_add(&by_kind[__builtin_ctz(kind)], 1);
    if (!(kinds & kind)) return 0;
    long number = atomic_fetch_add(&counted, 1) + 1;
    if (!target || number < target || (number > target && !sticky)) return 0;
    if (failure) {
        errno = failure;
        return 1;
    }
    return 2;
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)
/* Around a call of `kind`; `done` is the real one. */
#define AROUND(ours_, kind, done)                                                                                      \
    if (!(ours_)) return done;                                                                                         \
    int what = due(kind);                                                                                              \
    if (what == 1) return -1;                                                                                          \
    if (what == 2 && target % 2) die();                                                                                \
    int result = done;                                                                                                 \
    if (what == 2) die();                                                                                              \
    return result

/* A file that is only read is ours too: a folder is opened so to be synced. */
static int opened(const char *path, int file) {
    if (file >= 0 && file < MOST) ours[file] = is_below(path);
    return file;
}

static int changes(int flags) { return flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR); }

#define OPENING(name)                                                                                                  \
    int name(const char *path, int flags, ...) {                                                                       \
        REAL(name);                                                                                                    \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;                                        \
        va_end(rest);                                                                                                  \
        AROUND(is_below(path) && changes(flags), OPEN, opened(path, real(path, flags, mode)));                  \
    }
OPENING(open)
OPENING(open64)

int close(int file) {
    REAL(close);
    if (file >= 0 && file < MOST) ours[file] = 0;
    return real(file);
}

ssize_t write(int file, const void *data, size_t size) {
    REAL(write);
    if (!is_ours(file)) return real(file, data, size);
    int what = due(WRITE);
    if (what == 1) return -1;
    if (what == 2) {
        real(file, data, size / 2);
        die();
    }
    return real(file, data, size);
}

int fsync(int file) { REAL(fsync); AROUND(is_ours(file), FSYNC, real(file)); }
int ftruncate(int file, off_t size) { REAL(ftruncate); AROUND(is_ours(file), TRUNCATE, real(file, size)); }
int ftruncate64(int file, off64_t size) { REAL(ftruncate64); AROUND(is_ours(file), TRUNCATE, real(file, size)); }
int flock(int file, int how) { REAL(flock); AROUND(is_ours(file), LOCK, real(file, how)); }
int rename(const char *old, const char *new) { REAL(rename); AROUND(is_below(new), RENAME, real(old, new)); }
int link(const char *old, const char *new) { REAL(link); AROUND(is_below(new), LINK, real(old, new)); }
int linkat(int a, const char *old, int b, const char *new, int flags) {
    REAL(linkat);
    AROUND(is_below(new), LINK, real(a, old, b, new, flags));
}
int unlink(const char *path) { REAL(unlink); AROUND(is_below(path), UNLINK, real(path)); }
int mkdir(const char *path, mode_t mode) { REAL(mkdir); AROUND(is_below(path), MKDIR, real(path, mode)); }
