// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The counted paths. Each function repeats its path. The end of its symbol contains the name of the
// path and the number of repetitions, which `scripts/bench guard` reads.

import Larder
import LarderObjects

@inline(never)
@_silgen_name("guard_path_memory_hit_int_10000")
func guard_memory_hit_int(_ cache: PersistentCache<Int, Person>, _ count: Int) {
  for _ in 0..<Guard.repeats {
    for key in 0..<count { precondition(cache[key]?.id == key) }
  }
}

@inline(never)
@_silgen_name("guard_path_memory_hit_string_10000")
func guard_memory_hit_string(_ cache: PersistentCache<String, Person>, _ keys: [String]) {
  for _ in 0..<Guard.repeats {
    for key in keys { precondition(cache[key] != nil) }
  }
}

@inline(never)
@_silgen_name("guard_path_store_get_10000")
func guard_store_get(_ namespace: StoreNamespace, _ keys: [String]) throws {
  for key in keys { _ = try namespace.bytes(forKey: key) }
}

@inline(never)
@_silgen_name("guard_path_store_get_again_20000")
func guard_store_get_again(_ namespace: StoreNamespace, _ keys: [String]) throws {
  // Twice, or it is the same function as the one above.
  for _ in 0..<2 {
    for key in keys { _ = try namespace.bytes(forKey: key) }
  }
}

@inline(never)
@_silgen_name("guard_path_set_batch_1000")
func guard_set_batch(_ store: SharedStore, _ keys: [String], _ value: [UInt8]) throws {
  try store.write { transaction in
    for key in keys { try transaction.setBytes(value, forKey: key, in: "values") }
  }
}

@inline(never)
@_silgen_name("guard_path_set_committed_1000")
func guard_set_committed(_ namespace: StoreNamespace, _ keys: [String], _ value: [UInt8]) throws {
  for key in keys { try namespace.setBytes(value, forKey: key) }
}

@inline(never)
@_silgen_name("guard_path_cbor_decode_4000")
func guard_cbor_decode(_ codec: CBORCodec, _ encoded: [[UInt8]]) throws {
  for _ in 0..<Guard.repeats {
    for bytes in encoded { _ = try codec.decode(Person.self, from: bytes) }
  }
}

@inline(never)
@_silgen_name("guard_path_cbor_encode_4000")
func guard_cbor_encode(_ codec: CBORCodec, _ people: [Person]) throws {
  for _ in 0..<Guard.repeats {
    for person in people { _ = try codec.encode(person) }
  }
}

@inline(never)
@_silgen_name("guard_path_object_fetch_hot_10000")
func guard_object_fetch_hot(_ objects: ObjectCollection<Part>, _ ids: [String]) throws {
  for _ in 0..<Guard.repeats {
    for id in ids { _ = try objects.object(id: id) }
  }
}
