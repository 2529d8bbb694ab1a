// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderSystem

// WHO REFERS TO WHOM
//
// Every type whose objects refer to others has one index more than it declares, "larder.references",
// kept like the others in the transaction of each change:
//
//     bytes    the stored name of the type referred to
//     bytes    the id referred to
//     bytes    the coding keys that lead to the property, joined by "/"
//
// A name or an id of more than 100 bytes is cut to 92 and followed by its hash; whoever reads the
// index looks at the objects found as well. The index is made when the first object with a reference
// is saved, and so it is complete from the start. The type's version stands in its definition: a
// program of that version whose objects have no references does not know the type and must not write
// it; one of a later version gives the index up.

enum ReferenceIndex {
  static let name = "larder.references"

  static func definition(version: UInt32) -> String { "references of version \(version)" }

  /// The keys of all references to an object begin with this.
  static func prefix(_ type: String, _ id: [UInt8]) -> [UInt8] {
    element(short(Array(type.utf8))) + element(short(id))
  }

  static func key(_ type: String, _ id: [UInt8], _ path: [String]) -> [UInt8] {
    prefix(type, id) + element(Array(path.joined(separator: "/").utf8))
  }

  /// The keys an object's references have, each once.
  static func keys(_ links: [LinkCollector.Link], _ index: UInt32) -> [ObjectIndexKey] {
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

  /// Bytes as an element of a key, as `IndexKeyEncoder` has it.
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
  /// What predicates over references have in the place of a property.
  var larderReferences: Never? { nil }
}

extension ObjectTypeRecord {
  var references: Index? { indexes.first { $0.name == ReferenceIndex.name } }
}

extension Kind {
  /// Makes the type's record fit what an object refers to.
  func declare(
    _ collector: LinkCollector, of object: Object, _ record: inout ObjectTypeRecord,
    in transaction: inout StoreTransaction
  ) throws {
    let links = collector.links
    let definition = ReferenceIndex.definition(version: record.version)
    if links.isEmpty {
      guard let stored = record.references, !hasReferences else { return }
      guard stored.definition != definition else {
        throw ObjectError(
          .schemaMismatch, type: name,
          "Stored objects refer to others by properties that this program does not declare as "
            + "@HasOne or @HasMany, so it cannot keep what others know of them. Declare them, or "
            + "raise schemaVersion to give them up.", index: ReferenceIndex.name)
      }
      try transaction.dropObjectNumber(stored.number, isIndex: true)
      record.indexes.removeAll { $0.number == stored.number }
      record.relations = nil
      try transaction.putObjectType(record)
      return
    }
    markReferences()
    var changed = record
    if let position = record.indexes.firstIndex(where: { $0.name == ReferenceIndex.name }) {
      changed.indexes[position].definition = definition
    } else {
      changed.indexes.append(
        ObjectTypeRecord.Index(
          number: try transaction.newObjectNumber(), name: ReferenceIndex.name, fields: [],
          isUnique: false, definition: definition, builtTo: nil))
    }
    changed.relations = relations(links, of: object, record.relations ?? [])
    guard changed != record else { return }
    record = changed
    try transaction.putObjectType(record)
  }

  /// The rules of the properties an object has, and those known before of others.
  private func relations(
    _ links: [LinkCollector.Link], of object: Object, _ known: [ObjectTypeRecord.Relation]
  ) -> [ObjectTypeRecord.Relation]? {
    let declared = Object.relationships
    if declared.isEmpty, known.isEmpty { return nil }
    let rules = declared.map { ($0, $0.box(object)) }
    var relations = known
    for link in links {
      let rule = rules.first { $0.1 == link.box }?.0
      let position = relations.firstIndex { $0.path == link.path }
      guard let rule, rule.onDelete != .keep || rule.onTargetDelete != .leaveDangling else {
        if let position { relations.remove(at: position) }
        continue
      }
      let relation = ObjectTypeRecord.Relation(
        path: link.path, target: link.target, onDelete: rule.onDelete.rawValue,
        onTargetDelete: rule.onTargetDelete.rawValue)
      if let position { relations[position] = relation } else { relations.append(relation) }
    }
    return relations.isEmpty ? nil : relations
  }
}
