// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding

/// Returns whether two keys have the same bytes, as the store compares them.
///
/// Swift compares strings by canonical equivalence; in the store, strings that differ only in Unicode
/// normalisation are two keys. Memory must distinguish them as well: otherwise the stamps of one key
/// would validate the value of another.
@inlinable @inline(__always)
func isSameKey<Key: CacheKey>(_ left: Key, _ right: Key) -> Bool {
  if Key.self == String.self, let left = left as? String, let right = right as? String {
    return isSameText(left, right)
  }
  guard left == right else { return false }
  switch Key.keyTag {
  case .integer, .uuid, .bytes: return true
  default: return left.keyBytes == right.keyBytes
  }
}

@inlinable
func isSameText(_ left: String, _ right: String) -> Bool {
  guard left.utf8.count == right.utf8.count else { return false }
  return left.utf8.elementsEqual(right.utf8)
}
