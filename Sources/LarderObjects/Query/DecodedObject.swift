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

  /// Returns the same object with a sequence number, by which queries find it in memory.
  func placed(type: UInt32, sequence: UInt64) -> DecodedObject {
    preconditionFailure("a subclass has the object")
  }
}

/// An object that a query found.
///
/// It is independent of the object type, so what a query does with the objects that it finds is
/// compiled once; generic code requests the type's metadata at each step.
struct FoundObject: Sendable {
  let decoded: DecodedObject
  let sequence: UInt64
  /// The commit version of the transaction that wrote the object.
  let commitVersion: UInt64
  /// A hash of the states of the children that the object shows; only with a source.
  var related = 0
  /// The hash of the stored object; only with a source.
  var content: UInt64 = 0

  /// Returns the object.
  func object<Object: Storable>(as type: Object.Type = Object.self) -> Object {
    ObjectTypeDescriptor<Object>.object(of: decoded)
  }
}
