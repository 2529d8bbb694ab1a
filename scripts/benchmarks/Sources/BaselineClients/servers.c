// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0
//
// Redis (RESP2) and memcached (its text protocol) over a Unix socket.

#include "parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CAPACITY ((size_t)4 << 20)

struct server {
  peer peer;
  int descriptor;
  char *request;
  char *reply;
  // What a set is answered with.
  const char *stored;
  // Between begin and commit: requests are sent together, as a client that has many does.
  int batching;
  size_t queued, pending;
  // Milliseconds that what is set lives; 0: for ever.
  int life;
};

static struct server *server(peer *peer) { return (struct server *)peer; }

static void send_all(struct server *self, size_t count) {
  for (size_t sent = 0; sent < count;) {
    ssize_t more = write(self->descriptor, self->request + sent, count - sent);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) peer_fail("write", strerror(errno));
    sent += (size_t)more;
  }
}

// Reads until `self->reply` holds at least `count` bytes.
static size_t receive(struct server *self, size_t have, size_t count) {
  while (have < count) {
    ssize_t more = read(self->descriptor, self->reply + have, CAPACITY - have);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) peer_fail("read", more == 0 ? "the server closed the socket" : strerror(errno));
    have += (size_t)more;
  }
  return have;
}

// Reads until there is a whole first line; returns its length with the line's end.
static size_t receive_line(struct server *self, size_t *have) {
  for (;;) {
    char *end = memchr(self->reply, '\n', *have);
    if (end != NULL) return (size_t)(end - self->reply) + 1;
    *have = receive(self, *have, *have + 1);
  }
}

static void expect(struct server *self, const char *wanted) {
  size_t have = 0, line = receive_line(self, &have);
  if (line < strlen(wanted) || memcmp(self->reply, wanted, strlen(wanted)) != 0) {
    self->reply[line] = 0;
    peer_fail("unexpected reply", self->reply);
  }
}

// Sends what is queued and reads an answer for each.
static void flush_batch(struct server *self) {
  size_t have = 0, wanted = strlen(self->stored);
  send_all(self, self->queued);
  for (; self->pending > 0; self->pending--) {
    have = receive(self, have, wanted);
    if (memcmp(self->reply, self->stored, wanted) != 0) peer_fail("unexpected reply", self->reply);
    memmove(self->reply, self->reply + wanted, have - wanted);
    have -= wanted;
  }
  self->queued = 0;
}

static void begin_batch(peer *peer) { server(peer)->batching = 1; }

static void commit_batch(peer *peer) {
  flush_batch(server(peer));
  server(peer)->batching = 0;
}

// Where the next request is written: behind those that wait.
static char *next_request(struct server *self, size_t size) {
  if (self->batching && self->queued + size + 256 > CAPACITY) flush_batch(self);
  return self->request + self->queued;
}

static void finish_set(struct server *self, size_t count) {
  if (self->batching) {
    self->queued += count;
    self->pending++;
    // The answers must not fill the socket while nobody reads them.
    if (self->pending == 1000) flush_batch(self);
  } else {
    send_all(self, count);
    expect(self, self->stored);
  }
}

static void shut(peer *peer) {
  close(server(peer)->descriptor);
  free(server(peer)->request);
  free(server(peer)->reply);
  free(peer);
}

static struct server *reach(const char *path) {
  struct server *self = calloc(1, sizeof *self);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (self == NULL || strlen(path) >= sizeof address.sun_path) peer_fail(path, "path too long");
  strcpy(address.sun_path, path);
  self->request = malloc(CAPACITY);
  self->reply = malloc(CAPACITY);
  if (self->request == NULL || self->reply == NULL) abort();
  self->descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
  if (self->descriptor < 0 ||
      connect(self->descriptor, (struct sockaddr *)&address, sizeof address) != 0) {
    peer_fail(path, strerror(errno));
  }
  self->peer.close = shut;
  return self;
}

static size_t redis_get(peer *peer, const char *key, uint8_t *target, size_t capacity) {
  struct server *self = server(peer);
  size_t have = 0, line;
  long size;
  send_all(self, (size_t)sprintf(self->request, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n",
                                 PEER_KEY_LENGTH, key));
  line = receive_line(self, &have);
  if (self->reply[0] != '$') peer_fail("GET", "not a bulk string");
  size = strtol(self->reply + 1, NULL, 10);
  if (size < 0) return 0;
  receive(self, have, line + (size_t)size + 2);
  if ((size_t)size > capacity) peer_fail("GET", "too large");
  memcpy(target, self->reply + line, (size_t)size);
  return (size_t)size;
}

static void redis_set(peer *peer, const char *key, const uint8_t *value, size_t size) {
  struct server *self = server(peer);
  char *request = next_request(self, size), digits[16];
  size_t count = (size_t)sprintf(request, "*%d\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%zu\r\n",
                                 self->life > 0 ? 5 : 3, PEER_KEY_LENGTH, key, size);
  memcpy(request + count, value, size);
  memcpy(request + count + size, "\r\n", 2);
  count += size + 2;
  if (self->life > 0) {
    int length = snprintf(digits, sizeof digits, "%d", self->life);
    count += (size_t)sprintf(request + count, "$2\r\nPX\r\n$%d\r\n%s\r\n", length, digits);
  }
  finish_set(self, count);
}

void peer_redis_life(peer *peer, int milliseconds) { server(peer)->life = milliseconds; }

void peer_redis_command(peer *peer, const char *command) {
  struct server *self = server(peer);
  send_all(self, (size_t)sprintf(self->request, "%s\r\n", command));
  expect(self, "+OK\r\n");
}

// Reads until there are so many whole lines, and gives the beginning of the last one.
static const char *receive_lines(struct server *self, int wanted) {
  size_t have = 0;
  for (;;) {
    const char *last = self->reply, *line = self->reply;
    int lines = 0;
    for (size_t i = 0; i < have && lines < wanted; i++) {
      if (self->reply[i] != '\n') continue;
      lines++;
      last = line;
      line = self->reply + i + 1;
    }
    if (lines == wanted) return last;
    have = receive(self, have, have + 1);
  }
}

void peer_redis_subscribe(peer *peer) {
  struct server *self = server(peer);
  send_all(self, (size_t)sprintf(self->request, "SUBSCRIBE watched\r\n"));
  // An array of the word, the channel and a number: six lines.
  if (receive_lines(self, 6)[0] != ':') peer_fail("SUBSCRIBE", "unexpected reply");
}

long peer_redis_next(peer *peer) {
  // An array of the word, the channel and what was published: seven lines.
  return strtol(receive_lines(server(peer), 7), NULL, 10);
}

void peer_redis_publish(peer *peer, long number) {
  struct server *self = server(peer);
  send_all(self, (size_t)sprintf(self->request, "SET watched %ld\r\nPUBLISH watched %ld\r\n",
                                 number, number));
  if (receive_lines(self, 2)[0] != ':') peer_fail("PUBLISH", "unexpected reply");
}

void peer_redis_increment(peer *peer) {
  struct server *self = server(peer);
  send_all(self, (size_t)sprintf(self->request, "*2\r\n$4\r\nINCR\r\n$3\r\nhot\r\n"));
  if (receive_lines(self, 1)[0] != ':') peer_fail("INCR", "unexpected reply");
}

void peer_redis_queue(peer *peer, int count) {
  static const char *const commands[] = {"RPUSH jobs job", "LMOVE jobs claimed LEFT RIGHT",
                                         "LREM claimed 1 job"};
  // LMOVE answers with a length and the element.
  static const int lines[] = {1, 2, 1};
  struct server *self = server(peer);
  for (int step = 0; step < 3; step++) {
    size_t size = 0;
    for (int i = 0; i < count; i++)
      size += (size_t)sprintf(self->request + size, "%s\r\n", commands[step]);
    send_all(self, size);
    if (receive_lines(self, count * lines[step])[0] == '-') peer_fail("queue", "an error");
  }
}

static void redis_version(peer *peer, char *target, size_t capacity) {
  struct server *self = server(peer);
  size_t have = 0, line;
  const char *found;
  send_all(self, (size_t)sprintf(self->request, "INFO server\r\n"));
  line = receive_line(self, &have);
  receive(self, have, line + (size_t)strtol(self->reply + 1, NULL, 10) + 2);
  found = strstr(self->reply, "redis_version:");
  if (found == NULL) peer_fail("INFO", "no version");
  snprintf(target, capacity, "%.*s", (int)strcspn(found + 14, "\r\n"), found + 14);
}

peer *peer_redis(const char *path) {
  struct server *self = reach(path);
  self->peer.get = redis_get;
  self->peer.set = redis_set;
  self->peer.begin = begin_batch;
  self->peer.commit = commit_batch;
  self->stored = "+OK\r\n";
  self->peer.version = redis_version;
  return &self->peer;
}

static size_t memcached_get(peer *peer, const char *key, uint8_t *target, size_t capacity) {
  struct server *self = server(peer);
  size_t have = 0, line, size;
  send_all(self, (size_t)sprintf(self->request, "get %s\r\n", key));
  line = receive_line(self, &have);
  if (memcmp(self->reply, "END", 3) == 0) return 0;
  // VALUE <key> <flags> <bytes>
  size = strtoul(self->reply + 6 + PEER_KEY_LENGTH + 1 + 2, NULL, 10);
  receive(self, have, line + size + 7);
  if (size > capacity) peer_fail("get", "too large");
  memcpy(target, self->reply + line, size);
  return size;
}

static void memcached_set(peer *peer, const char *key, const uint8_t *value, size_t size) {
  struct server *self = server(peer);
  char *request = next_request(self, size);
  size_t count = (size_t)sprintf(request, "set %s 0 0 %zu\r\n", key, size);
  memcpy(request + count, value, size);
  memcpy(request + count + size, "\r\n", 2);
  finish_set(self, count + size + 2);
}

static void memcached_version(peer *peer, char *target, size_t capacity) {
  struct server *self = server(peer);
  send_all(self, (size_t)sprintf(self->request, "version\r\n"));
  expect(self, "VERSION ");
  snprintf(target, capacity, "%.*s", (int)strcspn(self->reply + 8, "\r\n"), self->reply + 8);
}

peer *peer_memcached(const char *path) {
  struct server *self = reach(path);
  self->peer.get = memcached_get;
  self->peer.set = memcached_set;
  self->peer.begin = begin_batch;
  self->peer.commit = commit_batch;
  self->stored = "STORED\r\n";
  self->peer.version = memcached_version;
  return &self->peer;
}
