// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#include "parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#define LARGEST ((size_t)2 << 20)

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

void peer_fail(const char *what, const char *why) {
  fprintf(stderr, "rival: %s: %s\n", what, why);
  exit(70);
}

static void name(char key[PEER_KEY_LENGTH + 1], uint32_t number) {
  snprintf(key, PEER_KEY_LENGTH + 1, "key-%06u", number % 1000000);
}

static uint32_t clamped(uint64_t time) { return time > UINT32_MAX ? UINT32_MAX : (uint32_t)time; }

size_t peer_heap(void) {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
#else
  return 0;
#endif
}

void peer_close(peer *peer) { peer->close(peer); }

void peer_version(peer *peer, char *target, size_t capacity) {
  peer->version(peer, target, capacity);
}

void peer_load(peer *peer, peer_data data) {
  char key[PEER_KEY_LENGTH + 1];
  for (uint32_t i = 0; i < data.count; i++) {
    if (peer->begin != NULL && i % 1000 == 0) peer->begin(peer);
    name(key, i);
    peer->set(peer, key, data.values + (size_t)i * data.size, data.size);
    if (peer->commit != NULL && (i % 1000 == 999 || i + 1 == data.count)) peer->commit(peer);
  }
}

size_t peer_value(peer *peer, uint32_t number, uint8_t *target, size_t capacity) {
  char key[PEER_KEY_LENGTH + 1];
  name(key, number);
  return peer->get(peer, key, target, capacity);
}

void peer_get(peer *peer, peer_data data, const uint32_t *order, size_t count, uint32_t *times,
              uint64_t *sum) {
  uint8_t *copy = malloc(LARGEST);
  uint64_t total = 0;
  if (copy == NULL) abort();
  for (size_t i = 0; i < count; i++) {
    char key[PEER_KEY_LENGTH + 1];
    uint64_t first, start;
    name(key, order[i]);
    start = now();
    if (peer->get(peer, key, copy, LARGEST) != data.size) peer_fail("get", "no such value");
    // The compiler must believe that somebody looks at all of the copy.
    __asm__ volatile("" : : "r"(copy) : "memory");
    times[i] = clamped(now() - start);
    memcpy(&first, copy, sizeof first);
    total += first;
  }
  free(copy);
  *sum = total;
}

void peer_set(peer *peer, peer_data data, const uint32_t *order, size_t count, uint32_t shift,
              uint32_t *times) {
  for (size_t i = 0; i < count; i++) {
    char key[PEER_KEY_LENGTH + 1];
    const uint8_t *value = data.values + (size_t)((order[i] + shift) % data.count) * data.size;
    uint64_t start;
    name(key, order[i]);
    start = now();
    peer->set(peer, key, value, data.size);
    times[i] = clamped(now() - start);
  }
}
