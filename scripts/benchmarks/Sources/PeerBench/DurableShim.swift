// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A library that is loaded before libc, and makes the disk of a child slow, or gives it another boot of the
/// system.
struct DurableShim {
  private let library: String

  /// Builds it.
  init(in directory: String) throws {
    let source = directory + "/durable_shim.c"
    library = directory + "/durable_shim.so"
    try Data(Self.source.utf8).write(to: URL(fileURLWithPath: source))
    try Child.wait(
      ["-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], executable: "/usr/bin/cc")
  }

  /// Each sync takes a millisecond longer.
  var slow: [String: String] { ["LD_PRELOAD": library, "SHIM_SLOW": "1"] }

  /// While a file exists, a sync of `data.mdb` does not end.
  func holding(while file: String) -> [String: String] {
    ["LD_PRELOAD": library, "SHIM_HOLD": file]
  }

  /// The boot identifier is that in a file.
  func boot(_ file: String) -> [String: String] { ["LD_PRELOAD": library, "SHIM_BOOT": file] }

  private static let source = """
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <fcntl.h>
    #include <stdarg.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <time.h>
    #include <unistd.h>
    static void pause_for(long nanoseconds) {
      struct timespec time = {0, nanoseconds};
      nanosleep(&time, 0);
    }
    static void delay(int file) {
      char link[64], path[4096];
      const char *hold = getenv("SHIM_HOLD");
      if (getenv("SHIM_SLOW")) pause_for(1000000);
      if (!hold) return;
      snprintf(link, sizeof link, "/proc/self/fd/%d", file);
      ssize_t length = readlink(link, path, sizeof path - 1);
      path[length < 0 ? 0 : length] = 0;
      while (strstr(path, "/data.mdb") && access(hold, F_OK) == 0) pause_for(1000000);
    }
    int fdatasync(int file) {
      static int (*next)(int);
      if (!next) next = dlsym(RTLD_NEXT, "fdatasync");
      delay(file);
      return next(file);
    }
    int fsync(int file) {
      static int (*next)(int);
      if (!next) next = dlsym(RTLD_NEXT, "fsync");
      delay(file);
      return next(file);
    }
    static const char *replaced(const char *path) {
      const char *other = getenv("SHIM_BOOT");
      return other && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0 ? other : path;
    }
    int open(const char *path, int flags, ...) {
      static int (*next)(const char *, int, ...);
      if (!next) next = dlsym(RTLD_NEXT, "open");
      va_list arguments;
      va_start(arguments, flags);
      int mode = va_arg(arguments, int);
      va_end(arguments);
      return next(replaced(path), flags, mode);
    }
    int open64(const char *path, int flags, ...) {
      static int (*next)(const char *, int, ...);
      if (!next) next = dlsym(RTLD_NEXT, "open64");
      va_list arguments;
      va_start(arguments, flags);
      int mode = va_arg(arguments, int);
      va_end(arguments);
      return next(replaced(path), flags, mode);
    }

    """
}
