// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine

// CONDITIONS THROUGH REFERENCES
//
// A reference is stored as the id of an object. For a query with a path through it, the value of each
// object is expanded before the condition is evaluated: the id becomes an item of the id and the
// fields of the object referred to, in the snapshot of the query. A path that ends at the reference
// reads the id, a longer one goes on in the fields; an object that is missing has none.

/// A reference in an expanded object: the id, and the object referred to.
struct FollowedReference {
  /// "refer" in ASCII, a tag that no encoder writes.
  private static let tag: UInt64 = 0x72_6566_6572

  let id: CBORValue
  /// The object, or null if it is missing.
  let object: CBORValue

  init(_ id: CBORValue, _ object: CBORValue) { (self.id, self.object) = (id, object) }

  init?(_ value: CBORValue) {
    guard case .tagged(Self.tag, .array(let parts)) = value, parts.count == 2 else { return nil }
    self.init(parts[0], parts[1])
  }

  var item: CBORValue { .tagged(Self.tag, .array([id, object])) }
}

/// The references that the paths of a query follow, as a tree of the fields that lead to them.
struct ReferencePaths: Sendable {
  /// The type that the field refers to, if it is a reference.
  var target: ObjectTypeRecord?
  private(set) var below: [String: ReferencePaths] = [:]

  /// Adds a path and the types of the references on it, each with its number of names before it.
  mutating func add(
    _ path: ArraySlice<String>, _ targets: [Int: ObjectTypeRecord], at level: Int = 0
  ) {
    if let found = targets[level] { target = found }
    guard let name = path.first, targets.keys.contains(where: { $0 > level }) else { return }
    below[name, default: ReferencePaths()].add(path.dropFirst(), targets, at: level + 1)
  }

  var isEmpty: Bool { below.isEmpty }
}

/// The objects that references lead to, in the snapshot of a query.
final class ReferenceReader {
  private let objects: DynamicObjects
  private let paths: ReferencePaths
  private var found: [UInt32: [String: CBORValue]] = [:]
  private var bytes = 0

  /// The most stored bytes of the objects that are kept in memory; each counts with what its entry needs.
  private static let limit = 16 << 20
  private static let entryBytes = 256

  init(_ objects: DynamicObjects, _ paths: ReferencePaths) {
    (self.objects, self.paths) = (objects, paths)
  }

  /// Returns an object in which the references of the query's paths are followed.
  func expanded(_ value: CBORValue, _ snapshot: borrowing Snapshot) throws -> CBORValue {
    paths.isEmpty ? value : try expanded(value, paths, snapshot)
  }

  private func expanded(
    _ value: CBORValue, _ paths: ReferencePaths, _ snapshot: borrowing Snapshot
  ) throws -> CBORValue {
    guard !paths.isEmpty, case .map(var pairs) = value.untagged else { return value }
    for position in pairs.indices {
      guard case .text(let name) = pairs[position].key, let path = paths.below[name] else {
        continue
      }
      if let target = path.target, case .text(let id) = pairs[position].value.untagged {
        let object = try self.object(id, of: target, snapshot)
        pairs[position].value =
          FollowedReference(.text(id), try expanded(object, path, snapshot)).item
      } else {
        pairs[position].value = try expanded(pairs[position].value, path, snapshot)
      }
    }
    return .map(pairs)
  }

  private func object(
    _ id: String, of type: ObjectTypeRecord, _ snapshot: borrowing Snapshot
  ) throws -> CBORValue {
    if let known = found[type.number]?[id] { return known }
    var value = CBORValue.null
    var cost = Self.entryBytes + id.utf8.count
    do {
      if let sequence = try ObjectReading.sequence(
        type: type.number, id: Array(id.utf8), in: snapshot),
        let stored = try ObjectReading.object(type: type.number, sequence: sequence, in: snapshot)
      {
        value = objects.object(stored)?.value ?? .null
        cost += stored.bytes.count
      }
    } catch let damage as DamagedObject {
      objects.tell(damage)
    }
    if bytes + cost > Self.limit { (found, bytes) = ([:], 0) }
    // One that is larger than all of them is read again where it is needed.
    if cost > Self.limit { return value }
    found[type.number, default: [:]][id] = value
    bytes += cost
    return value
  }
}
