// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0
//
// What a rival consists of, for the files that make one.

#ifndef LARDER_BENCH_PARTS_H
#define LARDER_BENCH_PARTS_H

#include "peers.h"

#define PEER_KEY_LENGTH 10

struct peer {
  // Returns the value's size, 0 when there is none.
  size_t (*get)(peer *, const char *key, uint8_t *target, size_t capacity);
  void (*set)(peer *, const char *key, const uint8_t *value, size_t size);
  // Around many sets; may be NULL.
  void (*begin)(peer *);
  void (*commit)(peer *);
  void (*version)(peer *, char *target, size_t capacity);
  void (*close)(peer *);
};

_Noreturn void peer_fail(const char *what, const char *why);

#endif
