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
  @usableFromInline let type: UInt32
  @usableFromInline let sequence: UInt64

  @inlinable
  init(_ context: ReferenceLoader?, type: UInt32, sequence: UInt64) {
    self.context = context
    self.type = type
    self.sequence = sequence
  }

  /// Whether the object may be returned again: none of its references shows a state that may be
  /// stale.
  @inlinable final var isFresh: Bool { context.map { !$0.wasLoaded } ?? true }

  /// Returns the same object with a sequence number, by which queries find it in memory.
  @usableFromInline
  func placed(type: UInt32, sequence: UInt64) -> DecodedObject {
    preconditionFailure("a subclass has the object")
  }
}

/// Puts objects into decoded objects and takes them out.
///
/// Generic code requests the type's metadata for each object and copies it by witness. So the public
/// methods create this value in the program, where the functions are specialised.
@usableFromInline
struct ObjectBox<Object: Storable>: Sendable {
  @usableFromInline typealias Decoded = ObjectTypeDescriptor<Object>.Decoded

  /// Decodes an object without references, of a type identifier and a sequence number.
  @usableFromInline let decode:
    @Sendable (_ fields: StoredObjectFields, _ type: UInt32, _ sequence: UInt64) throws ->
      DecodedObject
  /// Appends the objects of a batch.
  @usableFromInline let append: @Sendable (_ batch: [DecodedObject], inout [Object]) -> Void

  @inlinable
  init() {
    decode = { fields, type, sequence in
      Decoded(
        object: try Object(from: fields), context: nil, type: type, sequence: sequence)
    }
    append = { batch, objects in
      if objects.isEmpty { objects.reserveCapacity(batch.count) }
      for decoded in batch { objects.append(ObjectTypeDescriptor.object(of: decoded)) }
    }
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
  /// The state of the object, if the query returns objects and the state is to be noted.
  var state: ReadState?

  /// Returns the object.
  func object<Object: Storable>(as type: Object.Type = Object.self) -> Object {
    ObjectTypeDescriptor<Object>.object(of: decoded)
  }
}
