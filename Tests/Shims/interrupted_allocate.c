// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0
//
// A kernel that aborts fallocate with each signal, under a rain of signals: the first ALLOCATE_EINTR calls
// of the process return EINTR.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>

long syscall(long number, ...) {
  static long (*next)(long, ...);
  static long left = -1;
  if (!next) next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  if (left < 0) left = getenv("ALLOCATE_EINTR") ? atol(getenv("ALLOCATE_EINTR")) : 0;
  long a[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
  va_end(list);
  if (number == SYS_fallocate && __atomic_load_n(&left, __ATOMIC_RELAXED) > 0) {
    __atomic_fetch_sub(&left, 1, __ATOMIC_RELAXED);
    errno = EINTR;
    return -1;
  }
  return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
