// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

// THE REFERENCE INDEX
//
// Every type whose objects refer to others has one index in addition to the declared ones,
// "larder.references", updated like the others in the transaction of each change:
//
//     bytes    the stored name of the type referred to
//     bytes    the id referred to
//     bytes    the coding keys of the path to the property, joined by "/"
//
// A name or an id of more than 100 bytes is truncated to 92 bytes and followed by its hash, so a
// reader of the index also compares the objects found. The index is created when the first object
// with a reference is saved, so it is complete from the start. Its definition contains the type's
// version: a program of that version whose objects have no references does not declare the
// references and must not write the type; a program of a later version drops the index.

enum ReferenceIndex {
  static let name = "larder.references"

  static func definition(version: UInt32) -> String { "references of version \(version)" }

  /// Returns the common prefix of the keys of all references to an object.
  static func prefix(_ type: String, _ id: [UInt8]) -> [UInt8] {
    element(short(Array(type.utf8))) + element(short(id))
  }

  /// Returns the common prefix of the keys of all references to a type.
  static func prefix(_ type: String) -> [UInt8] { element(short(Array(type.utf8))) }

  /// Returns the upper bound of the keys with a prefix; prefixes end with a zero byte.
  static func end(of prefix: [UInt8]) -> [UInt8] { prefix.dropLast() + [1] }

  /// Returns the keys of an object whose fields were changed. According to the old keys, each
  /// property refers to the same type as before.
  ///
  /// - Parameter renamed: Returns the new path of a property.
  static func keys(
    of value: CBORValue, were old: [[UInt8]], _ renamed: ([String]) -> [String]
  ) -> [[UInt8]] {
    var targets: [[String]: [UInt8]] = [:]
    for key in old {
      guard let elements = elements(key), elements.count == 3 else { continue }
      let path = String(decoding: elements[2], as: UTF8.self).split(
        separator: "/", omittingEmptySubsequences: false)
      targets[renamed(path.map(String.init))] = element(elements[0])
    }
    var keys: [[UInt8]] = []
    for (path, type) in targets.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
      var seen: Set<[UInt8]> = []
      for id in value.references(at: path) where seen.insert(id).inserted {
        let way = element(Array(path.joined(separator: "/").utf8))
        keys.append(type + element(short(id)) + way)
      }
    }
    return keys
  }

  /// Returns the elements of a key, or `nil` if the key is truncated.
  private static func elements(_ key: [UInt8]) -> [[UInt8]]? {
    var elements: [[UInt8]] = []
    var position = 0
    while position < key.count {
      guard key[position] == 0x01 else { return nil }
      position += 1
      var bytes: [UInt8] = []
      while true {
        guard position < key.count else { return nil }
        let byte = key[position]
        position += 1
        if byte != 0 {
          bytes.append(byte)
        } else if position < key.count, key[position] == 0xFF {
          bytes.append(0)
          position += 1
        } else {
          break
        }
      }
      elements.append(bytes)
    }
    return elements
  }

  static func key(_ type: String, _ id: [UInt8], _ path: [String]) -> [UInt8] {
    prefix(type, id) + element(Array(path.joined(separator: "/").utf8))
  }

  /// Returns the keys of an object's references, without duplicates.
  static func keys(_ links: [ReferenceCollector.Link], _ index: UInt32) -> [ObjectIndexKey] {
    var keys: [ObjectIndexKey] = []
    for link in links where !link.ids.isEmpty {
      let type = element(short(Array(link.target.utf8)))
      let path = element(Array(link.path.joined(separator: "/").utf8))
      var seen: Set<[UInt8]> = []
      for id in link.ids {
        let id = Array(id.utf8)
        guard link.ids.count == 1 || seen.insert(id).inserted else { continue }
        keys.append(ObjectIndexKey(index: index, bytes: type + element(short(id)) + path))
      }
    }
    return keys
  }

  /// Returns those keys of an object that belong to references at or below paths.
  static func keys(
    _ keys: [ObjectIndexKey], of index: UInt32, at paths: [[String]]
  ) -> [ObjectIndexKey] {
    let texts = paths.map { $0.joined(separator: "/") }
    return keys.filter { key in
      guard key.index == index, let elements = elements(key.bytes), elements.count == 3 else {
        return false
      }
      let path = String(decoding: elements[2], as: UTF8.self)
      return texts.contains { path == $0 || path.hasPrefix($0 + "/") }
    }
  }

  /// Returns bytes as an element of a key, in the encoding of `IndexKeyEncoder`.
  private static func element(_ bytes: [UInt8]) -> [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity(bytes.count + 2)
    result.append(0x01)
    if bytes.contains(0) {
      for byte in bytes {
        result.append(byte)
        if byte == 0 { result.append(0xFF) }
      }
    } else {
      result += bytes
    }
    result.append(0)
    return result
  }

  private static func short(_ bytes: [UInt8]) -> [UInt8] {
    guard bytes.count > 100 else { return bytes }
    var result = Array(bytes.prefix(92))
    let hash = XXH64.hash(bytes)
    for shift in stride(from: UInt64(0), to: 64, by: 8) {
      result.append(UInt8(truncatingIfNeeded: hash >> shift))
    }
    return result
  }
}

extension Storable {
  /// The placeholder property of predicates over references.
  var larderReferences: Never? { nil }

  /// The placeholder property of a sort by a comparator.
  var larderComparator: Never? { nil }
}

extension ObjectTypeRecord.Index {
  /// Whether the library declares the index, not a program.
  var isInternal: Bool { name == ReferenceIndex.name || name == UnindexedNotes.name }
}

extension ObjectTypeRecord {
  var references: Index? { indexes.first { $0.name == ReferenceIndex.name } }
}

extension ObjectTypeDescriptor {
  /// Updates the type's record with the references of an object.
  func declare(
    _ collector: ReferenceCollector, of object: Object, _ record: inout ObjectTypeRecord,
    in transaction: inout StoreTransaction
  ) throws {
    let links = collector.links
    let definition = ReferenceIndex.definition(version: record.version)
    if links.isEmpty {
      guard let stored = record.references, !hasReferences else { return }
      guard stored.definition != definition else {
        throw ObjectError(
          .schemaMismatch, type: name,
          "Stored objects have references that this program does not declare with @HasOne or "
            + "@HasMany, so it cannot update the reference index. Declare them, or raise "
            + "schemaVersion to drop them.", index: ReferenceIndex.name)
      }
      try transaction.dropObjectNumber(stored.number, isIndex: true)
      record.indexes.removeAll { $0.number == stored.number }
      record.relations = nil
      try transaction.putObjectType(record)
      return
    }
    markReferences()
    var changed = record
    // A new version drops the rules of an older version; the next saves record the new ones.
    if record.references?.definition != definition { changed.relations = nil }
    if let position = record.indexes.firstIndex(where: { $0.name == ReferenceIndex.name }) {
      changed.indexes[position].definition = definition
    } else {
      changed.indexes.append(
        ObjectTypeRecord.Index(
          number: try transaction.newObjectNumber(), name: ReferenceIndex.name, fields: [],
          isUnique: false, definition: definition, builtTo: nil))
    }
    changed.relations = try relations(links, of: object, changed.relations ?? [])
    guard changed != record else { return }
    record = changed
    try transaction.putObjectType(record)
  }

  /// Returns the delete rules of an object's references merged with the stored ones. A program
  /// without a declared rule keeps the stored rule.
  ///
  /// - Throws: ``ObjectError/Code/schemaMismatch`` if a program of the same version declared
  ///   another rule.
  private func relations(
    _ links: [ReferenceCollector.Link], of object: Object, _ known: [ObjectTypeRecord.Relation]
  ) throws -> [ObjectTypeRecord.Relation]? {
    let rules = Object.relationships.map { ($0, $0.box(object)) }
    var relations = known
    for link in links {
      let rule = rules.first(where: { $0.1 == link.box })?.0
      let position = relations.firstIndex { $0.path == link.path }
      guard let rule else {
        guard link.isRequired, position == nil else { continue }
        // A nonoptional reference: the owner cannot be decoded without the object.
        var relation = ObjectTypeRecord.Relation(
          path: link.path, target: link.target, onDelete: "keep", onTargetDelete: "deny")
        relation.isImplied = true
        relations.append(relation)
        continue
      }
      let isDefault = rule.onDelete == .keep && rule.onTargetDelete == .leaveDangling
      if let position, relations[position].isImplied == true { relations.remove(at: position) }
      if isDefault, !link.isRequired { continue }
      let relation = ObjectTypeRecord.Relation(
        path: link.path, target: link.target, onDelete: rule.onDelete.rawValue,
        onTargetDelete: rule.onTargetDelete.rawValue)
      if let other = relations.first(where: { $0.path == link.path }) {
        guard other == relation else { throw contradiction(relation, other) }
      } else {
        relations.append(relation)
      }
    }
    return relations.isEmpty ? nil : relations
  }

  private func contradiction(
    _ declared: ObjectTypeRecord.Relation, _ stored: ObjectTypeRecord.Relation
  ) -> ObjectError {
    func text(_ rule: ObjectTypeRecord.Relation) -> String {
      "\(rule.onDelete), \(rule.onTargetDelete) to \(rule.target)"
    }
    return ObjectError(
      .schemaMismatch, type: name,
      "The delete rule for \"\(declared.path.joined(separator: "/"))\" (\(text(declared))) differs "
        + "from the stored rule of the same schema version (\(text(stored))). Declare the stored "
        + "rule, or raise schemaVersion.", index: ReferenceIndex.name)
  }
}
