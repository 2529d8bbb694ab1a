// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0
//
// What Swift cannot see by itself: liblmdb, and a few calls that are variadic, hidden behind a
// feature macro, or spelled differently per system. Each wrapper says why it is here. There is no
// C file: everything is `static inline`.

#ifndef LARDER_SHIM_H
#define LARDER_SHIM_H

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#endif

// Open-file-description locks. glibc shows the names only under _GNU_SOURCE, which must not be
// defined in a module's header (it changes other modules' view of libc). The numbers are kernel ABI.
#if defined(__linux__)
#define LARDER_OFD_GETLK 36
#define LARDER_OFD_SETLK 37
#elif defined(__APPLE__)
#define LARDER_OFD_SETLK 90
#define LARDER_OFD_GETLK 92
#endif

// fcntl is variadic, which Swift does not import.
static inline struct flock larder_range(short type, int64_t start, int64_t length) {
  struct flock lock;
  memset(&lock, 0, sizeof lock);
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = start;
  lock.l_len = length;
  return lock;
}

static inline int larder_lock_range(int fd, short type, int64_t start, int64_t length) {
  struct flock lock = larder_range(type, start, length);
  return fcntl(fd, LARDER_OFD_SETLK, &lock);
}

// 1: another process or file description holds a conflicting lock; 0: none does; -1: errno.
static inline int larder_range_is_locked(int fd, short type, int64_t start, int64_t length) {
  struct flock lock = larder_range(type, start, length);
  if (fcntl(fd, LARDER_OFD_GETLK, &lock) != 0) return -1;
  return lock.l_type != F_UNLCK;
}

// Looks for a lock on a range that another process or file description holds, and returns 1 with its range (a length
// of 0 is to the end of all offsets) and the number of its process in this PID namespace: 0 if it is in another one
// that this one does not contain, -1 for a description. 0: no lock; -1: errno.
static inline int larder_find_lock(int fd, int64_t start, int64_t length, int64_t *found_start,
                                   int64_t *found_length, int32_t *pid) {
  struct flock lock = larder_range(F_WRLCK, start, length);
  if (fcntl(fd, LARDER_OFD_GETLK, &lock) != 0) return -1;
  *found_start = lock.l_start;
  *found_length = lock.l_len;
  *pid = lock.l_pid;
  return lock.l_type != F_UNLCK;
}

// Whether a process holds the lock by which LMDB knows that the owner of reader slots lives: the byte of
// its pid in the lock file. 1 or 0.
static inline int larder_reader_lives(int fd, pid_t pid) {
  return larder_range_is_locked(fd, F_WRLCK, pid, 1) == 1;
}

// open is variadic.
static inline int larder_open(const char *path, int flags, int mode) {
  return open(path, flags | O_CLOEXEC, (mode_t)mode);
}
static inline int larder_open_at(int directory, const char *name, int flags) {
  return openat(directory, name, flags | O_CLOEXEC);
}
// Opens an entry to look at it and to begin paths with it, which needs no right to read it. glibc shows
// O_PATH only under _GNU_SOURCE.
static inline int larder_path_only(void) {
#if defined(O_PATH)
  return O_PATH;
#elif defined(__O_PATH)
  return __O_PATH;
#else
  return 0;
#endif
}
// A copy of a descriptor with a high number: a dying process closes its files in ascending order.
// Linux begins with room for 64 numbers, and to make more takes it some ten milliseconds in a process
// with threads (it waits for all processors): who has few files open gets one of the last of these.
static inline int larder_move_high(int fd) {
  int high = fd < 24 ? fcntl(fd, F_DUPFD_CLOEXEC, 48) : -1;
  if (high >= 64) {
    close(high);
    high = -1;
  }
  if (high < 0) high = fcntl(fd, F_DUPFD_CLOEXEC, 512);
  if (high < 0) return fd;
  close(fd);
  return high;
}
static inline int larder_set_cloexec(int fd) { return fcntl(fd, F_SETFD, FD_CLOEXEC); }

// Linux sleeps on a futex word shared between processes; Darwin has os_sync_wait_on_address, which
// is reached from Swift. 0: woken or value differs; ETIMEDOUT, EINTR: as said.
static inline int larder_futex_wait(const volatile uint32_t *word, uint32_t expected,
                                    int64_t nanoseconds) {
#if defined(__linux__)
  struct timespec limit = {nanoseconds / 1000000000, nanoseconds % 1000000000};
  if (syscall(SYS_futex, word, FUTEX_WAIT, expected, &limit, (void *)0, 0) == 0) return 0;
  return errno == EAGAIN ? 0 : errno;
#else
  struct timespec nap = {0, nanoseconds < 1000000 ? nanoseconds : 1000000};
  if (*word != expected) return 0;
  nanosleep(&nap, (void *)0);
  return ETIMEDOUT;
#endif
}
// At most so many sleepers of any process.
static inline void larder_futex_wake(const volatile uint32_t *word, int count) {
#if defined(__linux__)
  syscall(SYS_futex, word, FUTEX_WAKE, count, (void *)0, (void *)0, 0);
#else
  (void)word, (void)count;
#endif
}

// The mutexes in LMDB's lock file, where they are glibc's; LockWaitMonitor.swift uses them.
#if defined(__GLIBC__) && __SIZEOF_POINTER__ == 8
_Static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0, "the word that waiters sleep on");
static inline size_t larder_mutex_size(void) { return sizeof(pthread_mutex_t); }
// Whether there is a mutex of the kind LMDB makes: robust (16), of several processes (128).
static inline int larder_is_robust_mutex(const void *place) {
  return __atomic_load_n(&((const pthread_mutex_t *)place)->__data.__kind, __ATOMIC_RELAXED) ==
         (16 | 128);
}
// Whether somebody has it who will wake a waiter when he lets it go.
static inline int larder_mutex_wakes_next(const void *place) {
  uint32_t word =
      (uint32_t)__atomic_load_n(&((const pthread_mutex_t *)place)->__data.__lock, __ATOMIC_RELAXED);
  return (word & FUTEX_WAITERS) != 0 && (word & FUTEX_TID_MASK) != 0;
}
// The thread that holds it; 0: it is free, or its holder died.
static inline int32_t larder_mutex_holder(const void *place) {
  return __atomic_load_n(&((const pthread_mutex_t *)place)->__data.__lock, __ATOMIC_RELAXED) &
         FUTEX_TID_MASK;
}
static inline uint32_t larder_mutex_word(const void *place) {
  return (uint32_t)__atomic_load_n(&((const pthread_mutex_t *)place)->__data.__lock,
                                   __ATOMIC_ACQUIRE);
}
// Whether waiters of a mutex with this word wait for a holder: it is neither free nor left by a dead one.
static inline int larder_mutex_word_is_held(uint32_t word) {
  return word != 0 && (word & FUTEX_OWNER_DIED) == 0;
}
static inline int32_t larder_mutex_word_holder(uint32_t word) { return word & FUTEX_TID_MASK; }
// Does to a mutex with this word what the kernel does when its holder dies: the next thread that wants it gets it,
// and EOWNERDEAD. 1: done; 0: it has another word by now.
static inline int larder_mutex_abandon(void *place, uint32_t word) {
  return __atomic_compare_exchange_n((uint32_t *)&((pthread_mutex_t *)place)->__data.__lock, &word,
                                     FUTEX_OWNER_DIED | (word & FUTEX_WAITERS), 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED);
}
// Whether a thread has this number in the PID namespace of this process.
static inline int larder_thread_exists(int32_t thread) {
  return syscall(SYS_tkill, thread, 0) == 0 || errno != ESRCH;
}
#else
static inline size_t larder_mutex_size(void) { return 0; }
static inline int larder_is_robust_mutex(const void *place) { return (void)place, 0; }
static inline int larder_mutex_wakes_next(const void *place) { return (void)place, 1; }
static inline int32_t larder_mutex_holder(const void *place) { return (void)place, 0; }
static inline uint32_t larder_mutex_word(const void *place) { return (void)place, 0; }
static inline int larder_mutex_word_is_held(uint32_t word) { return (void)word, 0; }
static inline int32_t larder_mutex_word_holder(uint32_t word) { return (void)word, 0; }
static inline int larder_mutex_abandon(void *place, uint32_t word) {
  return (void)place, (void)word, 0;
}
static inline int larder_thread_exists(int32_t thread) { return (void)thread, 1; }
#endif

// A page that reads as zero in a forked child. getpid() costs a system call; this costs one load.
static inline int larder_wipe_on_fork(void *page, size_t length) {
#if defined(__linux__)
  return madvise(page, length, 18 /* MADV_WIPEONFORK */);
#else
  return minherit(page, length, VM_INHERIT_ZERO);
#endif
}

// The thread's identity as a number: pthread_t is a pointer on one system, an integer on the other.
static inline uint64_t larder_thread_token(void) { return (uint64_t)(uintptr_t)pthread_self(); }

// Swift has no word for it.
static inline void larder_prefetch(const void *address, size_t length) {
  for (size_t i = 0; i < length; i += 64) __builtin_prefetch((const char *)address + i);
}

// Whether the bytes of part are somewhere in all. Linux: memmem is hidden behind _GNU_SOURCE.
static inline int larder_contains(const void *all, size_t count, const void *part, size_t length) {
#ifdef __linux__
  extern void *memmem(const void *, size_t, const void *, size_t);
#endif
  return memmem(all, count, part, length) != (void *)0;
}

// MAP_FAILED is a cast in a macro, which Swift does not import.
static inline void *larder_map(size_t length, int protection, int flags, int fd) {
  void *address = mmap((void *)0, length, protection, flags, fd, 0);
  return address == MAP_FAILED ? (void *)0 : address;
}

// Linux only: fallocate is hidden behind _GNU_SOURCE, and posix_fallocate writes to the file where
// the file system cannot allocate. 0 or errno, EINTR as well.
static inline int larder_allocate(int fd, int64_t start, int64_t length) {
#if defined(__linux__)
  return syscall(SYS_fallocate, fd, 0, start, length) == 0 ? 0 : errno;
#else
  (void)fd, (void)start, (void)length;
  return ENOTSUP;
#endif
}

// Linux only: the size and the links of a file without its times. 0: the system does not do that. The offsets
// are those of struct statx, whose layout is fixed; the C libraries show it under different conditions.
static inline int larder_extent(int fd, int64_t *size, uint64_t *links) {
#if defined(__linux__) && defined(SYS_statx)
  const unsigned wanted = 0x4 | 0x200;  // STATX_NLINK, STATX_SIZE
  uint64_t info[32] = {0};
  uint32_t mask, count;
  if (syscall(SYS_statx, fd, "", 0x1000 /* AT_EMPTY_PATH */, wanted, info) != 0) return 0;
  memcpy(&mask, info, sizeof mask);
  if ((mask & wanted) != wanted) return 0;
  memcpy(&count, (const char *)info + 16, sizeof count);
  *links = count;
  *size = (int64_t)info[5];
  return 1;
#else
  (void)fd, (void)size, (void)links;
  return 0;
#endif
}

// Linux only: the number of the mount through which a file is open, which no later mount gets
// (STATX_MNT_ID_UNIQUE, Linux 6.8). 0: the system does not have it. The offsets are those of struct statx.
static inline uint64_t larder_mount_id(int fd) {
#if defined(__linux__) && defined(SYS_statx)
  const unsigned wanted = 0x4000;
  uint64_t info[32] = {0};
  uint32_t mask;
  if (syscall(SYS_statx, fd, "", 0x1000 /* AT_EMPTY_PATH */, wanted, info) != 0) return 0;
  memcpy(&mask, info, sizeof mask);
  return (mask & wanted) == wanted ? info[18] : 0;
#else
  return (void)fd, 0;
#endif
}

// Linux only: the magic number of the file system of an open file, and the id that statfs has for it.
static inline int64_t larder_open_file_system(int fd, uint64_t *id) {
  *id = 0;
#if defined(__linux__)
  struct statfs info;
  if (fstatfs(fd, &info) != 0) return -1;
  memcpy(id, &info.f_fsid, sizeof *id);
  return (int64_t)(uint64_t)(unsigned long)info.f_type;
#else
  return (void)fd, -1;
#endif
}

// Linux only: sync_file_range with SYNC_FILE_RANGE_WRITE is hidden behind _GNU_SOURCE.
static inline void larder_start_writing(int fd, int64_t start, int64_t length) {
#if defined(__linux__) && defined(SYS_sync_file_range) && defined(__LP64__)
  syscall(SYS_sync_file_range, fd, start, length, 2);
#else
  (void)fd, (void)start, (void)length;
#endif
}

// Linux only: sets FS_NOCOW_FL; ioctl is variadic. 1: the flag is set now. 0: it is not.
static inline int larder_disable_cow(int fd) {
#if defined(__linux__)
  // FS_IOC_GETFLAGS and FS_IOC_SETFLAGS are declared with `long` and transfer an `int`.
  unsigned long get = _IOR('f', 1, long), set = _IOW('f', 2, long);
  int flags = 0;
  if (ioctl(fd, get, &flags) != 0) return 0;
  if (flags & 0x00800000 /* FS_NOCOW_FL */) return 1;
  flags |= 0x00800000;
  if (ioctl(fd, set, &flags) != 0) return 0;
  flags = 0;
  return ioctl(fd, get, &flags) == 0 && (flags & 0x00800000) != 0;
#else
  return (void)fd, 0;
#endif
}

// Whether memory is mapped, without touching it. 1 or 0.
static inline int larder_is_mapped(void *address, size_t length) {
#if defined(__linux__)
  return msync(address, length, MS_ASYNC) == 0;
#else
  (void)address, (void)length;
  return 0;
#endif
}

// Words of liblmdb's own structures, at these offsets in all releases 0.9. WriteMapReservation.swift and
// LockWaitMonitor.swift use them, and check them against the library's functions and the system.
static inline int larder_env_descriptor(MDB_env *env) { return ((int *)(void *)env)[0]; }
static inline int larder_env_lock_descriptor(MDB_env *env) { return ((int *)(void *)env)[1]; }
static inline uint32_t larder_env_flags(MDB_env *env) { return ((uint32_t *)(void *)env)[3]; }
static inline void larder_env_set_flag(MDB_env *env, uint32_t flag, int on) {
  uint32_t *flags = (uint32_t *)(void *)env + 3;
  if (on) __atomic_fetch_or(flags, flag, __ATOMIC_RELAXED);
  else __atomic_fetch_and(flags, ~flag, __ATOMIC_RELAXED);
}
static inline uint64_t larder_txn_next_page(MDB_txn *txn) {
  return ((size_t *)(void *)txn)[2];
}

// errno cannot be set from Swift. `error`: what the commit left in it, zero if no call failed.
static inline int larder_txn_commit(MDB_txn *txn, int *error) {
  errno = 0;
  int status = mdb_txn_commit(txn);
  *error = errno;
  return status;
}

// Linux only: the file system's magic number. Darwin names its file systems (f_fstypename).
static inline int64_t larder_file_system_type(const char *path) {
#if defined(__linux__)
  struct statfs info;
  return statfs(path, &info) == 0 ? (int64_t)(uint64_t)(unsigned long)info.f_type : -1;
#else
  (void)path;
  return 0;
#endif
}

#endif
