// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A decoded object of whatever type: what a memory tier holds.
///
/// The tier's type says nothing of the object's, so that the tier is compiled once, and looking into
/// it copies a reference and not the object.
@usableFromInline
// Sound: it and what it is a part of never change.
class DecodedObject: @unchecked Sendable {
  @usableFromInline let context: ReferenceLoader?
  /// The number of its type and its sequence; zero: whoever filed it did not know.
  let type: UInt32
  let sequence: UInt64

  init(_ context: ReferenceLoader?, type: UInt32, sequence: UInt64) {
    self.context = context
    self.type = type
    self.sequence = sequence
  }

  /// Whether it may be handed out again: none of its references shows what may be old.
  @inlinable final var isFresh: Bool { context.map { !$0.wasLoaded } ?? true }
}
