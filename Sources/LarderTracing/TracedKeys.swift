// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tracing
/// A choice of how spans identify keys and locks, whose names may be personal data.
///
/// ```swift
/// let store = try SharedStore(at: path, StoreOptions().tracing(keys: .plain))
/// ```
public enum TracedKeys: Sendable, Hashable {
  /// Nothing.
  case none
  /// The keyed hash under which the store has the entry, as 16 hexadecimal digits.
  ///
  /// It is equal for equal keys of one namespace in every process, and differs between stores. Without
  /// the store's secret, which its files contain, it cannot be compared with hashes of guessed keys.
  case hashed
  /// The key as text, the names of locks, and the texts of Larder's errors, which contain keys.
  case plain
}
#endif
