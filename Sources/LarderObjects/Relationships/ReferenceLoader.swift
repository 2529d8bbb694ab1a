// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem
internal import Synchronization

#if canImport(FoundationEssentials)
internal import FoundationEssentials
#else
internal import Foundation
#endif

// THE SOURCE OF LOADED REFERENCES
//
// A decoder of the store carries a context in its user info, and every decoded reference keeps it.
// The context belongs to one fetch: one object, or all objects of one query's result. It records
// two facts that the store checks before it returns the same decoded values again: whether there
// were references, and whether one of them was followed. A value whose references already show a
// state is not returned to the next caller; it is decoded again.
//
// The mark is set before the children are read. So a caller that finds it unset and shares a value
// gets children that are read later than its own fetch, never older ones.

extension CodingUserInfoKey {
  /// The user info key of the store's context.
  static let links = CodingUserInfoKey(rawValue: "larder.links")!
}

/// The context from which the references of one fetch load.
@usableFromInline
final class ReferenceLoader: Sendable {
  private weak let store: ObjectStore?
  /// The uncommitted writes of the transaction that decoded the references.
  let overlay: TransactionOverlay?
  private let failure = Mutex<ObjectError?>(nil)
  private let used = Atomic<Bool>(false)
  private let loaded = Atomic<Bool>(false)

  /// The snapshot that decoded the references, if they load from it.
  let source: TrackedSnapshot?

  init(
    store: ObjectStore?, overlay: TransactionOverlay? = nil, source: TrackedSnapshot? = nil
  ) {
    self.store = store
    self.overlay = overlay
    self.source = source
  }

  /// Whether a reference was decoded.
  var wasUsed: Bool { used.load(ordering: .acquiring) }
  func markUsed() { used.store(true, ordering: .releasing) }

  /// Whether a reference was followed and may show a stale state.
  @usableFromInline var wasLoaded: Bool { loaded.load(ordering: .sequentiallyConsistent) }
  func markLoaded() {
    loaded.store(true, ordering: .sequentiallyConsistent)
    source?.noteFollow()
  }

  /// Returns the existing objects of ids in their order, and the ids of missing ones.
  func objects<Target: Storable>(
    _ type: Target.Type, _ ids: [String]
  ) throws -> (objects: [Target], missing: [String]) {
    guard let store else {
      throw ObjectError(
        .notFound, type: Target.storedName,
        "The ObjectStore that fetched the parent was released. Keep the store as long as the "
          + "program follows references.", ids: ids)
    }
    let kind = store.kind(type)
    var found: [Target?] = Array(repeating: nil, count: ids.count)
    var open = Array(ids.indices)
    if let overlay, overlay.isOpen {
      open = []
      for (position, id) in ids.enumerated() {
        let reference = ObjectIdentity(type: kind.name, id: Array(id.utf8))
        switch overlay.change(reference) {
        case .none: open.append(position)
        case .deleted: break
        case .saved(let bytes):
          found[position] = try kind.decode(
            bytes, id: reference.id,
            ReferenceDecoder(ReferenceLoader(store: store, overlay: overlay))
          ).object
        }
      }
      // Objects outside the overlay are read with references that load this transaction's state.
      let rest = try store.collection(type).objects(
        texts: open.map { ids[$0] }, ReferenceLoader(store: store, overlay: overlay))
      for (position, object) in zip(open, rest) { found[position] = object }
    } else if let read = try source?.objects(type, ids, store) {
      found = read
    } else {
      found = try store.collection(type).objects(texts: ids)
    }
    return (
      found.compactMap { $0 }, zip(ids, found).compactMap { $1 == nil ? $0 : nil }
    )
  }

  /// Loads an object while another is being decoded, and limits the depth.
  func nested<R>(_ body: () throws -> R) throws -> R {
    let depth = ReferenceCodingPath.depth
    guard depth < 100 else {
      throw ObjectError(
        .unreadable, type: "",
        "More than 100 objects refer to each other by references that are not optional. Make one "
          + "optional.")
    }
    return try ReferenceCodingPath.$depth.withValue(depth + 1) { try body() }
  }

  func missing(_ type: String, _ ids: [String]) -> ObjectError {
    ObjectError(
      .unreadable, type: type,
      "The object is missing, and a nonoptional reference requires it. Save the object again, or "
        + "make the reference optional.", ids: ids)
  }

  /// Reports an error of a property, which cannot throw it.
  func report(_ error: any Error) {
    if let error = error as? ObjectError { failure.withLock { $0 = $0 ?? error } }
    store?.storage.core.report(error)
  }

  /// Returns the first error that was reported since the last call: a condition that a query evaluates saw
  /// a property without its objects.
  func takeFailure() -> ObjectError? {
    failure.withLock { failure in
      defer { failure = nil }
      return failure
    }
  }
}

/// A decoder that carries a context.
struct ReferenceDecoder: Sendable {
  let context: ReferenceLoader
  let cbor: CBORDecoder

  init(_ context: ReferenceLoader) {
    self.context = context
    var decoder = CBORDecoder()
    decoder.userInfo[.links] = context
    cbor = decoder
  }
}

/// The nesting depth while values are coded within each other.
enum ReferenceCodingPath {
  @TaskLocal static var depth = 0
  /// The types whose samples are being decoded.
  @TaskLocal static var sampledTypes: Set<String> = []
  @TaskLocal private static var path: [ObjectIdentity] = []

  /// Encodes objects inside the object that refers to them, outside a store. Limits the depth,
  /// because a cycle would not terminate.
  static func descend(
    _ type: String, _ ids: [String], _ codingPath: [any CodingKey], _ body: () throws -> Void
  ) throws {
    let references = ids.map { ObjectIdentity(type: type, id: Array($0.utf8)) }
    guard !references.contains(where: path.contains), path.count < 400 else {
      throw EncodingError.invalidValue(
        ids,
        EncodingError.Context(
          codingPath: codingPath,
          debugDescription:
            "Objects that refer to each other in a cycle, or at a great depth, cannot be encoded "
            + "within each other. Encode a single object with the ids of its references."))
    }
    try $path.withValue(path + references) { try body() }
  }
}

/// The type and id of an object.
struct ObjectIdentity: Hashable, Sendable {
  /// The stored name of the type.
  let type: String
  let id: [UInt8]

  var text: String { String(decoding: id, as: UTF8.self) }
}

/// The uncommitted writes of a transaction, for references that are followed before the commit.
final class TransactionOverlay: Sendable {
  enum Change: Sendable {
    case none, deleted
    case saved([UInt8])
  }

  private enum Pending {
    case one(ObjectIdentity, [UInt8]?, ObjectLayouts?)
    case many(ObjectRewrites, type: String, ObjectLayouts?)
  }

  private struct State {
    var isOpen = true
    /// Changes that have not been indexed yet, in their order. Few transactions read them.
    var pending: [Pending] = []
    var changes: [ObjectIdentity: [UInt8]?] = [:]
    /// Types whose objects were all deleted before the changes.
    var cleared: Set<String> = []

    mutating func settle() {
      for change in pending {
        switch change {
        case .one(let reference, let bytes, let layouts): add(reference, bytes, layouts)
        case .many(let rewrites, let type, let layouts):
          rewrites.forEachStored { add(ObjectIdentity(type: type, id: $0), $1, layouts) }
        }
      }
      pending = []
    }

    private mutating func add(
      _ reference: ObjectIdentity, _ bytes: [UInt8]?, _ layouts: ObjectLayouts?
    ) {
      let map = bytes.map { bytes in bytes.withRawSpan { layouts?.map(of: $0) } ?? bytes }
      changes[reference] = .some(map)
    }
  }

  private let state = Mutex(State())

  var isOpen: Bool { state.withLock { $0.isOpen } }

  /// Adds the state of a saved object.
  ///
  /// - Parameter layouts: The layouts of the type, if the object may have one.
  func save(_ reference: ObjectIdentity, _ bytes: [UInt8], _ layouts: ObjectLayouts? = nil) {
    state.withLock { $0.pending.append(.one(reference, bytes, layouts)) }
  }

  /// Adds the states of objects of a type that were stored with other bytes.
  func save(_ rewrites: ObjectRewrites, of type: String, _ layouts: ObjectLayouts?) {
    state.withLock { $0.pending.append(.many(rewrites, type: type, layouts)) }
  }

  func delete(_ reference: ObjectIdentity) {
    state.withLock { $0.pending.append(.one(reference, nil, nil)) }
  }

  func clear(_ type: String) {
    state.withLock { state in
      state.settle()
      state.changes = state.changes.filter { $0.key.type != type }
      state.cleared.insert(type)
    }
  }

  /// Closes the overlay: the transaction has committed or was rolled back.
  func close() {
    state.withLock { state in
      state.isOpen = false
      state.pending = []
      state.changes = [:]
      state.cleared = []
    }
  }

  /// Whether the transaction has written an object: its state is not committed, and may never be.
  func hasChanged(_ reference: ObjectIdentity) -> Bool {
    if case .none = change(reference) { false } else { true }
  }

  func change(_ reference: ObjectIdentity) -> Change {
    state.withLock { state in
      state.settle()
      return switch state.changes[reference] {
      case .some(.some(let bytes)): .saved(bytes)
      case .some(.none): .deleted
      case .none: state.cleared.contains(reference.type) ? .deleted : .none
      }
    }
  }
}
