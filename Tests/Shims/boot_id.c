// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0
//
// Another boot of the system: the process reads the file that BOOT_ID names instead of the kernel's
// boot identifier.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef int (*open_function)(const char *, int, ...);

static const char *replaced(const char *path) {
  const char *other = getenv("BOOT_ID");
  return other && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0 ? other : path;
}

int open(const char *path, int flags, ...) {
  static open_function next;
  if (!next) next = (open_function)dlsym(RTLD_NEXT, "open");
  va_list arguments;
  va_start(arguments, flags);
  int mode = va_arg(arguments, int);
  va_end(arguments);
  return next(replaced(path), flags, mode);
}

int open64(const char *path, int flags, ...) {
  static open_function next;
  if (!next) next = (open_function)dlsym(RTLD_NEXT, "open64");
  va_list arguments;
  va_start(arguments, flags);
  int mode = va_arg(arguments, int);
  va_end(arguments);
  return next(replaced(path), flags, mode);
}
