// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderObjectEngine

// The checks at the end of a transaction.

extension ObjectTransaction {
  /// Verifies that no two objects have one key in a unique index, and that no object denies a
  /// deletion of the transaction.
  mutating func checkConstraints() throws {
    if let conflict = try entries.firstConflict() {
      let owner = try types().first { type in
        type.indexes.contains { $0.number == conflict.index }
      }
      // A type without a record cannot be named.
      throw owner?.violation(conflict)
        ?? ObjectError(
          .uniqueViolation, type: "of index \(conflict.index)",
          "Two objects have one key in a unique index. Change one of the two.")
    }
    if denied.isEmpty { return }
    let types = try types()
    if let error = try DeletionPlan.denial(of: denied, entries, types) { throw error }
  }

  /// Notes objects whose deletion is checked again at the end of the transaction.
  mutating func noteDenied(_ references: Set<ObjectIdentity>) { denied.formUnion(references) }
}
