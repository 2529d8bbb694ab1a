// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0
//
// Another wall clock: the process adds the nanoseconds in the file that WALL_CLOCK names, an i64, to the
// time since 1970. The monotonic clock is that of the system.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;

__attribute__((constructor)) static void map_offset(void) {
  const char *path = getenv("WALL_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *memory = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
  if (memory != MAP_FAILED) offset = memory;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  static int (*next)(clockid_t, struct timespec *);
  if (!next) next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int result = next(clock, time);
  if (result || !offset || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return result;
  int64_t shifted = time->tv_sec * INT64_C(1000000000) + time->tv_nsec + *offset;
  // Before 1970 too, the nanoseconds count forward.
  time->tv_nsec = (shifted % 1000000000 + 1000000000) % 1000000000;
  time->tv_sec = (shifted - time->tv_nsec) / 1000000000;
  return result;
}
