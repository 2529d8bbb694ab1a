// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0
//
// The fate of syncs: fsync and fdatasync of a path that ends with what a test has written to the file that SYNC_FATE
// names, one line. The path of a directory ends with a slash: "/" is each of them.
//
//   refuse N SUFFIX   the N-th one is not done and returns EIO; the file is removed then
//   hold SUFFIX       each one ends when the file is removed or has another word
//   delay MS SUFFIX   each one takes so many milliseconds longer, before the disk has anything of it. In the middle of
//                     its N-th one the process is killed, if SYNC_DEATH is N

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void wait_milliseconds(long count) {
  struct timespec time = {count / 1000, count % 1000 * 1000000};
  nanosleep(&time, NULL);
}

// The order whose suffix the path of a file has, or 0.
static char ordered(int fd, long *number) {
  const char *file = getenv("SYNC_FATE");
  char order[4096], word[16], suffix[4096], link[32], path[4096];
  if (!file) return 0;
  int input = open(file, O_RDONLY | O_CLOEXEC);
  if (input < 0) return 0;
  ssize_t length = read(input, order, sizeof order - 1);
  close(input);
  if (length <= 0) return 0;
  order[length] = 0;
  *number = 0;
  if (sscanf(order, "hold %4000s", suffix) == 1) strcpy(word, "hold");
  else if (sscanf(order, "%15s %ld %4000s", word, number, suffix) != 3) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  length = readlink(link, path, sizeof path - 1);
  struct stat status;
  if (length > 0 && !fstat(fd, &status) && S_ISDIR(status.st_mode)) path[length++] = '/';
  size_t count = strlen(suffix);
  if (length < (ssize_t)count || memcmp(path + length - count, suffix, count)) return 0;
  return word[0];
}

static void delay(long milliseconds) {
  static long delays;
  const char *death = getenv("SYNC_DEATH");
  long number = __atomic_add_fetch(&delays, 1, __ATOMIC_SEQ_CST);
  wait_milliseconds(milliseconds / 2);
  if (death && number == atol(death)) kill(getpid(), SIGKILL);
  wait_milliseconds(milliseconds - milliseconds / 2);
}

// Whether the sync is refused.
static int is_refused(int fd) {
  static long refusals;
  long number;
  char order = ordered(fd, &number);
  if (order == 'd') delay(number);
  while (order == 'h') {
    wait_milliseconds(2);
    order = ordered(fd, &number);
  }
  if (order != 'r' || __atomic_add_fetch(&refusals, 1, __ATOMIC_SEQ_CST) < number) return 0;
  refusals = 0;
  unlink(getenv("SYNC_FATE"));
  errno = EIO;
  return 1;
}

int fsync(int fd) {
  static int (*next)(int);
  if (!next) next = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  return is_refused(fd) ? -1 : next(fd);
}

int fdatasync(int fd) {
  static int (*next)(int);
  if (!next) next = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  return is_refused(fd) ? -1 : next(fd);
}
