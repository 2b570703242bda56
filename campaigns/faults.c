/* Counts the file operations of a process below one folder, and lets one of them fail, stop or end the process.

   Loaded with LD_PRELOAD, so it also sees the writers that are not Python: pyarrow, safetensors, libpng. Does nothing
   until `fault_arm` is called or CAMPAIGN_FAULT=mode:at:folder is set. Operations that only read are not counted. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OFF, COUNT, KILL, TEAR, FULL, FULL_ONCE, READ_ONLY, INTERRUPT, TERMINATE };

static atomic_long counted;
static atomic_int mode = OFF;
static long at;
static char folder[PATH_MAX];
static size_t length;

void fault_arm(int wanted, long place, const char *below) {
    atomic_store(&mode, OFF);
    strncpy(folder, below, sizeof folder - 1);
    length = strlen(folder);
    at = place;
    atomic_store(&counted, 0);
    atomic_store(&mode, wanted);
}

long fault_count(void) { return atomic_load(&counted); }

__attribute__((constructor)) static void arm_from_environment(void) {
    const char *text = getenv("CAMPAIGN_FAULT");
    int wanted, used;
    long place;
    if (text && sscanf(text, "%d:%ld:%n", &wanted, &place, &used) == 2) fault_arm(wanted, place, text + used);
}

static int inside(const char *path) {
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static int path_inside(int base, const char *path) {
    char whole[2 * PATH_MAX], start[PATH_MAX], link[64];
    if (!path) return 0;
    if (path[0] == '/') return inside(path);
    snprintf(link, sizeof link, base == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", base);
    ssize_t size = readlink(link, start, sizeof start - 1);
    if (size < 0) return 0;
    start[size] = 0;
    snprintf(whole, sizeof whole, "%s/%s", start, path);
    return inside(whole);
}

static int file_inside(int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return inside(path);
}

/* Count an operation; return 0 to go on, an errno to fail with, or -1 to do half of it and die. */
static int next(int takes_space) {
    int now = atomic_load(&mode);
    if (now == OFF) return 0;
    long place = atomic_fetch_add(&counted, 1);
    if (now == READ_ONLY) return EROFS;
    if (now == FULL && place >= at && takes_space) return ENOSPC;
    if (place != at) return 0;
    if (now == FULL_ONCE && takes_space) return ENOSPC;
    if (now == KILL) { kill(getpid(), SIGKILL); pause(); }
    if (now == TEAR) return -1;
    if (now == INTERRUPT) kill(getpid(), SIGINT);
    if (now == TERMINATE) kill(getpid(), SIGTERM);
    return 0;
}

static void die(void) { kill(getpid(), SIGKILL); pause(); }

#define REAL(name) ({ static typeof(&name) real; if (!real) real = (typeof(&name))dlsym(RTLD_NEXT, #name); real; })
#define ARMED (atomic_load(&mode) != OFF)
/* Operations that are done or not done; a torn one is done, and then the process dies. */
#define GUARD(where, space, call, failed) \
    int fault_ = ARMED && (where) ? next(space) : 0; \
    if (fault_ > 0) { errno = fault_; return failed; } \
    typeof(call) answer_ = (call); \
    if (fault_ < 0) die(); \
    return answer_;

static int writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)); }

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list list; va_start(list, flags); mode_t rights = va_arg(list, mode_t); va_end(list); \
        GUARD(writes(flags) && path_inside(AT_FDCWD, path), (flags & O_CREAT) != 0, \
              REAL(name)(path, flags, rights), -1) }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int base, const char *path, int flags, ...) { \
        va_list list; va_start(list, flags); mode_t rights = va_arg(list, mode_t); va_end(list); \
        GUARD(writes(flags) && path_inside(base, path), (flags & O_CREAT) != 0, \
              REAL(name)(base, path, flags, rights), -1) }
OPENAT(openat)
OPENAT(openat64)

#define FOPEN(name) \
    FILE *name(const char *path, const char *how) { \
        GUARD(strpbrk(how, "wa+") && path_inside(AT_FDCWD, path), 1, REAL(name)(path, how), NULL) }
FOPEN(fopen)
FOPEN(fopen64)

/* A full disk takes half of what is written; a torn write is half done when the process dies. */
#define WRITE(name, parameters, half, whole) \
    ssize_t name parameters { \
        int fault_ = ARMED && file_inside(fd) ? next(1) : 0; \
        if (fault_ == ENOSPC && size > 1 && mode == FULL && counted - 1 == at) return half; \
        if (fault_ > 0) { errno = fault_; return -1; } \
        if (fault_ < 0) { ssize_t done_ = half; (void)done_; die(); } \
        return whole; }
WRITE(write, (int fd, const void *from, size_t size), REAL(write)(fd, from, size / 2), REAL(write)(fd, from, size))
WRITE(pwrite, (int fd, const void *from, size_t size, off_t place), REAL(pwrite)(fd, from, size / 2, place),
      REAL(pwrite)(fd, from, size, place))
WRITE(pwrite64, (int fd, const void *from, size_t size, off64_t place), REAL(pwrite64)(fd, from, size / 2, place),
      REAL(pwrite64)(fd, from, size, place))

ssize_t writev(int fd, const struct iovec *parts, int count) {
    GUARD(file_inside(fd), 1, REAL(writev)(fd, parts, count), -1)
}

size_t fwrite(const void *from, size_t size, size_t count, FILE *file) {
    int fault_ = ARMED && file_inside(fileno(file)) ? next(1) : 0;
    if (fault_ > 0) { errno = fault_; return 0; }
    if (fault_ < 0) { size_t done_ = REAL(fwrite)(from, size, count / 2, file); (void)done_; fflush(file); die(); }
    return REAL(fwrite)(from, size, count, file);
}

#define ON_PATH(name, space) \
    int name(const char *path) { GUARD(path_inside(AT_FDCWD, path), space, REAL(name)(path), -1) }
ON_PATH(unlink, 0)
ON_PATH(rmdir, 0)

int unlinkat(int base, const char *path, int flags) {
    GUARD(path_inside(base, path), 0, REAL(unlinkat)(base, path, flags), -1)
}
int mkdir(const char *path, mode_t rights) { GUARD(path_inside(AT_FDCWD, path), 1, REAL(mkdir)(path, rights), -1) }
int mkdirat(int base, const char *path, mode_t rights) {
    GUARD(path_inside(base, path), 1, REAL(mkdirat)(base, path, rights), -1)
}
int rename(const char *from, const char *to) {
    GUARD(path_inside(AT_FDCWD, to), 0, REAL(rename)(from, to), -1)
}
int renameat(int base, const char *from, int other, const char *to) {
    GUARD(path_inside(other, to), 0, REAL(renameat)(base, from, other, to), -1)
}
int renameat2(int base, const char *from, int other, const char *to, unsigned flags) {
    GUARD(path_inside(other, to), 0, REAL(renameat2)(base, from, other, to, flags), -1)
}
int link(const char *from, const char *to) { GUARD(path_inside(AT_FDCWD, to), 1, REAL(link)(from, to), -1) }
int symlink(const char *from, const char *to) { GUARD(path_inside(AT_FDCWD, to), 1, REAL(symlink)(from, to), -1) }
int truncate(const char *path, off_t size) {
    GUARD(path_inside(AT_FDCWD, path), 1, REAL(truncate)(path, size), -1)
}

#define ON_FILE(name, parameters, space, call) \
    int name parameters { GUARD(file_inside(fd), space, REAL(name) call, -1) }
ON_FILE(ftruncate, (int fd, off_t size), 1, (fd, size))
ON_FILE(ftruncate64, (int fd, off64_t size), 1, (fd, size))
ON_FILE(fsync, (int fd), 0, (fd))
ON_FILE(fdatasync, (int fd), 0, (fd))
