// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A decoded object of any type: the value type of the memory tier.
///
/// The tier is independent of the object type, so it is compiled once, and a look-up copies a
/// reference, not the object.
@usableFromInline
// @unchecked Sendable: this class and its subclasses are immutable.
class DecodedObject: @unchecked Sendable {
  @usableFromInline let context: ReferenceLoader?
  /// The type identifier, stored with the sequence number; zero if the caller that inserted the
  /// object did not have them.
  let type: UInt32
  let sequence: UInt64

  init(_ context: ReferenceLoader?, type: UInt32, sequence: UInt64) {
    self.context = context
    self.type = type
    self.sequence = sequence
  }

  /// Whether the object may be returned again: none of its references shows a state that may be
  /// stale.
  @inlinable final var isFresh: Bool { context.map { !$0.wasLoaded } ?? true }
}
