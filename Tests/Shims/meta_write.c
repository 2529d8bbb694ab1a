// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0
//
// Strikes at LMDB's write of a meta page: the last step of a commit that can fail, and the only one
// between a visible meta page and the published transaction id.
//
// A test writes one word to the file that META_WRITE names. The next meta write of the process reads
// it, removes the file, and
//
//   hold   writes the page, prints "meta written", and returns after one line of standard input
//   kill   writes the page, and kills the process
//   fail   does not write the page, and returns EIO

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef ssize_t (*pwrite_function)(int, const void *, size_t, off64_t);

// A meta page is written in part, starting after its header; other pages are written whole.
static int is_meta_write(int fd, size_t count, off64_t offset) {
  char link[32], path[4096];
  if (offset >= 8192 || count >= 4096) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path);
  return length >= 9 && memcmp(path + length - 9, "/data.mdb", 9) == 0;
}

// 'h', 'k', 'f', or 0 where no test requested anything.
static char ordered(void) {
  const char *path = getenv("META_WRITE");
  char order = 0;
  if (!path) return 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  if (read(fd, &order, 1) != 1) order = 0;
  close(fd);
  if (order) unlink(path);
  return order;
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset) {
  static pwrite_function next;
  if (!next) next = (pwrite_function)dlsym(RTLD_NEXT, "pwrite64");
  char order = is_meta_write(fd, count, offset) ? ordered() : 0;
  if (order == 'f') {
    errno = EIO;
    return -1;
  }
  ssize_t written = next(fd, bytes, count, offset);
  if (order == 'k') kill(getpid(), SIGKILL);
  if (order == 'h') {
    static const char line[] = "meta written\n";
    char byte = 0;
    if (write(1, line, sizeof line - 1) < 0) abort();
    while (byte != '\n' && read(0, &byte, 1) == 1) continue;
  }
  return written;
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset) {
  return pwrite64(fd, bytes, count, offset);
}
