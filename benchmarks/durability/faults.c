/* Faults of the disk, in front of the C library: kills at the n-th change below a folder, or a full disk from there on.
 *
 * Loaded by LD_PRELOAD. Counted are calls that change files below the folder: writes, syncs, new files, renames,
 * removals, cuts. All processes that map the same control file share one count.
 */
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OFF, COUNT, KILL, TORN, FULL };

struct control {
    atomic_long count;
    long at;
    long mode;
    atomic_long refused;
    char root[PATH_MAX];
};
static struct control *control;

void faults_open(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *map = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    control = map == MAP_FAILED ? NULL : map;
}

__attribute__((constructor)) static void start(void)
{
    const char *path = getenv("DURABILITY_FAULTS");
    if (path && *path) faults_open(path);
}

static int below(const char *path)
{
    size_t length = strlen(control->root);
    return strncmp(path, control->root, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static int is_ours(int fd)
{
    char link[64], path[PATH_MAX];
    if (!control || control->mode == OFF) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return below(path);
}

static int is_ours_at(int folder, const char *path)
{
    if (!control || control->mode == OFF || !path) return 0;
    if (path[0] == '/') return below(path);
    return folder == AT_FDCWD ? 0 : is_ours(folder);
}

/* Counts a call; dies at the chosen one; returns whether the disk is full from here on. */
static int step(int tearable)
{
    long now = atomic_fetch_add(&control->count, 1) + 1;
    if (control->mode == FULL) return now >= control->at;
    if (now != control->at) return 0;
    if (control->mode == KILL || (control->mode == TORN && !tearable)) kill(0, SIGKILL);
    return control->mode == TORN;
}

static int refuse(void)
{
    atomic_fetch_add(&control->refused, 1);
    errno = ENOSPC;
    return -1;
}

static int grows(int fd, off_t end)
{
    struct stat status;
    return fstat(fd, &status) == 0 && end > status.st_size;
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define DIE() do { kill(0, SIGKILL); for (;;) pause(); } while (0)

ssize_t write(int fd, const void *data, size_t size)
{
    REAL(write);
    if (is_ours(fd) && step(1)) {
        if (control->mode == FULL) {
            off_t at = lseek(fd, 0, SEEK_CUR);
            if (at >= 0 && !grows(fd, at + size) && !(fcntl(fd, F_GETFL) & O_APPEND)) return real(fd, data, size);
            if (control->refused == 0 && size > 1) { control->refused = 1; return real(fd, data, size / 2); }
            return refuse();
        }
        real(fd, data, size / 2);
        DIE();
    }
    return real(fd, data, size);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
    REAL(pwrite64);
    if (is_ours(fd) && step(1)) {
        if (control->mode == FULL) {
            if (!grows(fd, at + size)) return real(fd, data, size, at);
            if (control->refused == 0 && size > 1) { control->refused = 1; return real(fd, data, size / 2, at); }
            return refuse();
        }
        real(fd, data, size / 2, at);
        DIE();
    }
    return real(fd, data, size, at);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return pwrite64(fd, data, size, at); }

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    REAL(writev);
    if (is_ours(fd) && step(0)) return refuse();
    return real(fd, parts, count);
}

ssize_t sendfile64(int out, int in, off64_t *at, size_t size);
ssize_t sendfile64(int out, int in, off64_t *at, size_t size)
{
    REAL(sendfile64);
    if (is_ours(out) && step(1)) {
        if (control->mode == FULL) return refuse();
        real(out, in, at, size > 4096 ? 4096 : size / 2);
        DIE();
    }
    return real(out, in, at, size);
}
ssize_t sendfile(int out, int in, off_t *at, size_t size) { return sendfile64(out, in, at, size); }

ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t size, unsigned flags)
{
    REAL(copy_file_range);
    if (is_ours(out) && step(0)) return refuse();
    return real(in, from, out, to, size, flags);
}

#define SYNC(name) \
    int name(int fd) { REAL(name); if (is_ours(fd)) step(0); return real(fd); }
SYNC(fsync)
SYNC(fdatasync)

int ftruncate64(int fd, off64_t size)
{
    REAL(ftruncate64);
    if (is_ours(fd) && step(0) && control->mode == FULL && grows(fd, size)) return refuse();
    return real(fd, size);
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

static int creates(int folder, const char *path, int flags)
{
    return (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) && is_ours_at(folder, path) &&
           faccessat(folder, path, F_OK, 0) != 0;
}

#define OPEN(name, parameters, folder, path, ...) \
    int name parameters { \
        REAL(name); \
        mode_t mode = 0; \
        if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) { \
            va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); } \
        int before = errno; \
        if (creates(folder, path, flags) && step(0) && control->mode == FULL) return refuse(); \
        if (flags & O_TRUNC && is_ours_at(folder, path)) step(0); \
        errno = before; \
        return real(__VA_ARGS__, flags, mode); }
OPEN(open, (const char *path, int flags, ...), AT_FDCWD, path, path)
OPEN(open64, (const char *path, int flags, ...), AT_FDCWD, path, path)
OPEN(openat, (int folder, const char *path, int flags, ...), folder, path, folder, path)
OPEN(openat64, (int folder, const char *path, int flags, ...), folder, path, folder, path)

int rename(const char *from, const char *to)
{
    REAL(rename);
    if (is_ours_at(AT_FDCWD, to)) step(0);
    return real(from, to);
}
int renameat(int one, const char *from, int other, const char *to)
{
    REAL(renameat);
    if (is_ours_at(other, to)) step(0);
    return real(one, from, other, to);
}
int link(const char *from, const char *to)
{
    REAL(link);
    if (is_ours_at(AT_FDCWD, to) && step(0) && control->mode == FULL) return refuse();
    return real(from, to);
}
int unlink(const char *path)
{
    REAL(unlink);
    if (is_ours_at(AT_FDCWD, path)) step(0);
    return real(path);
}
int unlinkat(int folder, const char *path, int flags)
{
    REAL(unlinkat);
    if (is_ours_at(folder, path)) step(0);
    return real(folder, path, flags);
}
int rmdir(const char *path)
{
    REAL(rmdir);
    if (is_ours_at(AT_FDCWD, path)) step(0);
    return real(path);
}
int mkdir(const char *path, mode_t mode)
{
    REAL(mkdir);
    if (is_ours_at(AT_FDCWD, path) && step(0) && control->mode == FULL) return refuse();
    return real(path, mode);
}
int mkdirat(int folder, const char *path, mode_t mode)
{
    REAL(mkdirat);
    if (is_ours_at(folder, path) && step(0) && control->mode == FULL) return refuse();
    return real(folder, path, mode);
}
