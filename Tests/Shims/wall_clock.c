// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0
//
// Another time of day: the clocks of wall time show WALL_CLOCK seconds since 1970, which may be negative, at the start of
// the process.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
  static int (*next)(clockid_t, struct timespec *);
  static time_t offset;
  if (!next) {
    struct timespec now;
    int (*found)(clockid_t, struct timespec *) =
        (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    found(CLOCK_REALTIME, &now);
    const char *start = getenv("WALL_CLOCK");
    if (start) offset = atol(start) - now.tv_sec;
    next = found;
  }
  int result = next(clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += offset;
  return result;
}
