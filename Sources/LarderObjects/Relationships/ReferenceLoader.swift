// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import Synchronization

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

// WHERE REFERENCES LOAD FROM
//
// A decoder in the store carries a context in its user info, and every reference that is decoded keeps
// it. The context is that of one fetch: one object, or all objects of one query's result. It knows two
// things the store asks for before it hands the same decoded values out again: whether there were
// references at all, and whether one of them was looked at. A value whose references show a state
// already is not given to the next who fetches; it is decoded anew.
//
// The mark is set before the children are read. So who finds it not set and shares a value sees
// children read later than its own fetch: never older than that.

extension CodingUserInfoKey {
  /// Where references find the store while they are coded.
  static let links = CodingUserInfoKey(rawValue: "larder.links")!
}

/// What the references of one fetch load from.
@usableFromInline
final class ReferenceLoader: Sendable {
  private weak let store: ObjectStore?
  /// What the transaction wrote in which the references were decoded.
  let overlay: TransactionOverlay?
  private let used = Atomic<Bool>(false)
  private let loaded = Atomic<Bool>(false)

  /// The snapshot the references were decoded in, if they are to be followed in it.
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

  /// Whether a reference was looked at, and may show a state that is not the newest any more.
  @usableFromInline var wasLoaded: Bool { loaded.load(ordering: .sequentiallyConsistent) }
  func markLoaded() {
    loaded.store(true, ordering: .sequentiallyConsistent)
    source?.noteLook()
  }

  /// The objects of ids in their order, without those that are gone, and the ids of these.
  func objects<Target: Storable>(
    _ type: Target.Type, _ ids: [String]
  ) throws -> (objects: [Target], missing: [String]) {
    guard let store else {
      throw ObjectError(
        .notFound, type: Target.storedName,
        "The ObjectStore that the parent was fetched from does not exist any more. Keep it as long "
          + "as references are followed.", ids: ids)
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
      // What was there before is read as this transaction's references see it.
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

  /// Runs the loading of an object inside the decoding of another.
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
      "The object is gone, and a reference to it is not optional. Save it again, or make the "
        + "reference optional.", ids: ids)
  }

  func report(_ error: any Error) { store?.storage.core.report(error) }
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

/// The way down while values are coded within each other.
enum ReferenceCodingPath {
  @TaskLocal static var depth = 0
  /// The types of which samples are being decoded.
  @TaskLocal static var judgedTypes: Set<String> = []
  @TaskLocal private static var path: [ObjectIdentity] = []

  /// Encodes objects inside the object that refers to them, outside of a store; a cycle would have
  /// no end.
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
            "Objects that refer to each other in a cycle, or very deeply, cannot be "
            + "encoded within each other. Encode one object, with the references' ids."))
    }
    try $path.withValue(path + references) { try body() }
  }
}

/// An object of any type: where it is filed.
struct ObjectIdentity: Hashable, Sendable {
  /// The stored name of the type.
  let type: String
  let id: [UInt8]

  var text: String { String(decoding: id, as: UTF8.self) }
}

/// What a transaction has written so far, for references that are followed before it is committed.
final class TransactionOverlay: Sendable {
  enum Change: Sendable {
    case none, deleted
    case saved([UInt8])
  }

  private struct State {
    var isOpen = true
    /// Changes that were not looked for yet, in their order; mostly nobody ever does.
    var pending: [(reference: ObjectIdentity, bytes: [UInt8]?)] = []
    var changes: [ObjectIdentity: [UInt8]?] = [:]
    /// Types of which everything was deleted, before the changes.
    var cleared: Set<String> = []

    mutating func settle() {
      for change in pending { changes[change.reference] = .some(change.bytes) }
      pending = []
    }
  }

  private let state = Mutex(State())

  var isOpen: Bool { state.withLock { $0.isOpen } }

  func save(_ reference: ObjectIdentity, _ bytes: [UInt8]) {
    state.withLock { $0.pending.append((reference, bytes)) }
  }

  func delete(_ reference: ObjectIdentity) {
    state.withLock { $0.pending.append((reference, nil)) }
  }

  func clear(_ type: String) {
    state.withLock { state in
      state.settle()
      state.changes = state.changes.filter { $0.key.type != type }
      state.cleared.insert(type)
    }
  }

  /// The transaction is over: what it wrote is the store's, or nobody's.
  func close() {
    state.withLock { state in
      state.isOpen = false
      state.pending = []
      state.changes = [:]
      state.cleared = []
    }
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
