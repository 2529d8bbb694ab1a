// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

// DELETION
//
// First, the plan collects the objects to delete with a list and a set: the requested objects,
// those that cascade from them, and so on; the set ends cycles, and the list supports any depth.
// Second, it finds the objects that refer to any of these and are not deleted. Third, the
// transaction nullifies references and deletes objects. If an object denied a deletion, the end of
// the transaction looks again: where the deleted object is still missing and such a reference
// exists, the error names all objects that deny.
//
// All of this reads the catalog, the reference index and the CBOR of objects. It needs no Swift
// type, so the rules apply in every process. Nullifying is different if the referring type declares
// indexes: only a process that has used the type with this store can compute its index keys. Any
// other process gets an error.

/// The objects that a deletion deletes, and those that it changes.
struct DeletionPlan {
  private struct Rule {
    let owner: ObjectTypeRecord
    let relation: ObjectTypeRecord.Relation
  }

  private let types: [String: ObjectTypeRecord]
  private let rules: [Rule]
  /// The objects to delete, in the order they were found.
  private(set) var removed: [ObjectIdentity] = []
  /// The number of requested objects that exist.
  private(set) var found = 0
  /// The objects to delete whose deletion another object denies.
  private(set) var denied: Set<ObjectIdentity> = []
  /// The ids to remove from objects, by the path of the property.
  private(set) var nullified: [ObjectIdentity: [[String]: Set<[UInt8]>]] = [:]

  /// Returns whether deleting all objects of a type affects other objects.
  static func hasRules(about type: String, among types: [ObjectTypeRecord]) -> Bool {
    types.contains { record in
      (record.relations ?? []).contains { relation in
        // Referrers of the same type are deleted too.
        (record.name == type) != (relation.target == type)
          && (record.name == type
            ? relation.onDelete == "cascade" : relation.onTargetDelete != "leaveDangling")
      }
    }
  }

  init(
    _ entries: borrowing StoreTransaction, _ all: [ObjectTypeRecord],
    removing roots: [ObjectIdentity]
  ) throws {
    var plan: (removed: [ObjectIdentity], found: Int) = ([], 0)
    let types = Dictionary(all.map { ($0.name, $0) }) { first, _ in first }
    let rules = all.flatMap { owner in
      (owner.relations ?? []).map { Rule(owner: owner, relation: $0) }
    }
    self.types = types
    self.rules = rules
    var going: Set<ObjectIdentity> = []
    let referrers = try entries.withSnapshot { snapshot in
      var list = roots
      var next = 0
      while next < list.count {
        let reference = list[next]
        next += 1
        guard !going.contains(reference), let type = types[reference.type],
          try ObjectReading.sequence(
            type: type.number, id: reference.id, in: snapshot) != nil
        else { continue }
        going.insert(reference)
        plan.removed.append(reference)
        if next <= roots.count { plan.found += 1 }
        let cascades = (type.relations ?? []).filter { $0.onDelete == "cascade" }
        guard !cascades.isEmpty, !Mutant.cascadeForgotten.isActive,
          let value = try Self.value(of: reference, type, snapshot)
        else { continue }
        for relation in cascades {
          list += value.references(at: relation.path).map {
            ObjectIdentity(type: relation.target, id: $0)
          }
        }
      }
      return try Self.referrers(of: plan.removed, going, rules, snapshot)
    }
    removed = plan.removed
    found = plan.found
    nullified = referrers.nullified
    denied = Set(referrers.denied.keys)
  }

  /// Returns the error for deleted objects that others refer to and whose deletion they deny, or
  /// `nil` if there are none.
  ///
  /// - Parameters:
  ///   - deleted: The objects that the transaction deleted; it may have stored them again.
  ///   - all: The records of all types.
  static func denial(
    of deleted: Set<ObjectIdentity>, _ entries: borrowing StoreTransaction,
    _ all: [ObjectTypeRecord]
  ) throws -> ObjectError? {
    let rules = all.flatMap { owner in
      (owner.relations ?? []).map { Rule(owner: owner, relation: $0) }
    }
    let denied = try entries.withSnapshot { snapshot in
      var missing: Set<ObjectIdentity> = []
      for reference in deleted {
        let type = all.first { $0.name == reference.type }?.number
        let sequence = try type.flatMap {
          try ObjectReading.sequence(type: $0, id: reference.id, in: snapshot)
        }
        if sequence == nil { missing.insert(reference) }
      }
      return try referrers(of: Array(missing), missing, rules, snapshot).denied
    }
    guard let guarded = denied.keys.min(by: { $0.id.lexicographicallyPrecedes($1.id) }) else {
      return nil
    }
    var owners: [ObjectIdentity] = []
    for owner in denied.values.joined() where owners.count < 100 && !owners.contains(owner) {
      owners.append(owner)
    }
    let names = owners.prefix(5).map { "\($0.type) \"\($0.text)\"" }.joined(separator: ", ")
    return ObjectError(
      .deletionDenied, type: guarded.type,
      "\"\(guarded.text)\" cannot be deleted: \(names)\(owners.count > 5 ? ", …" : "") refer to "
        + "it with the delete rule deny. Delete or change the referrers in the same transaction.",
      ids: owners.map(\.text))
  }

  /// The remaining objects that refer to deleted ones.
  private struct Referrers {
    var nullified: [ObjectIdentity: [[String]: Set<[UInt8]>]] = [:]
    /// Those that deny a deletion, at most a hundred for each deleted object.
    var denied: [ObjectIdentity: [ObjectIdentity]] = [:]
  }

  /// Returns the remaining objects that refer to deleted ones.
  private static func referrers(
    of removed: [ObjectIdentity], _ going: Set<ObjectIdentity>, _ rules: [Rule],
    _ snapshot: borrowing Snapshot
  ) throws -> Referrers {
    var result = Referrers()
    let unindexed = try unindexedOwners(of: removed, going, rules, snapshot)
    for reference in removed {
      for (position, rule) in rules.enumerated()
      where rule.relation.target == reference.type
        && rule.relation.onTargetDelete != "leaveDangling"
      {
        let owners =
          try owners(rule, of: reference, snapshot)
          + (unindexed[position]?[reference.id] ?? [])
        for owner in owners where !going.contains(owner) {
          if rule.relation.onTargetDelete == "deny" {
            if result.denied[reference, default: []].count < 100 {
              result.denied[reference, default: []].append(owner)
            }
          } else {
            result.nullified[owner, default: [:]][rule.relation.path, default: []].insert(
              reference.id)
          }
        }
      }
    }
    return result
  }

  /// Returns the objects that refer to deleted ones, of types with an incomplete reference index:
  /// by the position of the rule and the id referred to.
  private static func unindexedOwners(
    of removed: [ObjectIdentity], _ going: Set<ObjectIdentity>, _ rules: [Rule],
    _ snapshot: borrowing Snapshot
  ) throws -> [Int: [[UInt8]: [ObjectIdentity]]] {
    var owners: [Int: [[UInt8]: [ObjectIdentity]]] = [:]
    for (position, rule) in rules.enumerated() {
      guard let builtTo = rule.owner.references?.builtTo,
        removed.contains(where: { $0.type == rule.relation.target })
      else { continue }
      try ObjectReading.scan(
        type: rule.owner.number, from: builtTo + 1, in: snapshot
      ) { found in
        guard case .success(let stored) = found, let value = try? CBORValue(parsing: stored.bytes)
        else { return true }
        for id in Set(value.references(at: rule.relation.path))
        where going.contains(ObjectIdentity(type: rule.relation.target, id: id)) {
          owners[position, default: [:]][id, default: []].append(
            ObjectIdentity(type: rule.owner.name, id: stored.id))
        }
        return true
      }
    }
    return owners
  }

  /// Returns the objects whose property refers to another, according to the reference index.
  private static func owners(
    _ rule: Rule, of reference: ObjectIdentity, _ snapshot: borrowing Snapshot
  ) throws -> [ObjectIdentity] {
    guard let index = rule.owner.references else { return [] }
    let key = ObjectIndexKey(
      index: index.number,
      bytes: ReferenceIndex.key(reference.type, reference.id, rule.relation.path)
    ).bytes
    var sequences: [UInt64] = []
    try ObjectReading.scanIndex(
      index.number, from: key, below: key + [0], in: snapshot
    ) { found, sequence in
      if found.byteCount == key.count { sequences.append(sequence) }
      return true
    }
    return try sequences.compactMap { sequence in
      let stored: StoredObject?
      do {
        stored = try ObjectReading.object(
          type: rule.owner.number, sequence: sequence, in: snapshot)
      } catch is DamagedObject {
        return nil
      }
      // The index contains long ids as hashes.
      guard let stored, let value = try? CBORValue(parsing: stored.bytes),
        value.references(at: rule.relation.path).contains(reference.id)
      else { return nil }
      return ObjectIdentity(type: rule.owner.name, id: stored.id)
    }
  }

  /// Returns an object's CBOR, or `nil` if it is damaged, so that its references are unknown.
  private static func value(
    of reference: ObjectIdentity, _ type: ObjectTypeRecord, _ snapshot: borrowing Snapshot
  ) throws -> CBORValue? {
    do {
      guard
        let sequence = try ObjectReading.sequence(
          type: type.number, id: reference.id, in: snapshot),
        let stored = try ObjectReading.object(
          type: type.number, sequence: sequence, in: snapshot)
      else { return nil }
      return try? CBORValue(parsing: stored.bytes)
    } catch is DamagedObject {
      return nil
    }
  }
}

extension CBORValue {
  /// Returns the ids at a property.
  func references(at path: [String]) -> [[UInt8]] {
    var value = self
    for key in path {
      guard case .map(let pairs) = value,
        let found = pairs.first(where: { $0.key == .text(key) })
      else { return [] }
      value = found.value
    }
    switch value {
    case .text(let id): return [Array(id.utf8)]
    case .array(let items):
      return items.compactMap { item in
        if case .text(let id) = item { Array(id.utf8) } else { nil }
      }
    default: return []
    }
  }

  /// Returns the value without some ids at a property.
  func removing(_ ids: Set<[UInt8]>, at path: ArraySlice<String>) -> CBORValue {
    func isRemoved(_ value: CBORValue) -> Bool {
      if case .text(let id) = value { ids.contains(Array(id.utf8)) } else { false }
    }
    guard let key = path.first else {
      if case .array(let items) = self { return .array(items.filter { !isRemoved($0) }) }
      return isRemoved(self) ? .null : self
    }
    guard case .map(var pairs) = self,
      let position = pairs.firstIndex(where: { $0.key == .text(key) })
    else { return self }
    pairs[position].value = pairs[position].value.removing(ids, at: path.dropFirst())
    return .map(pairs)
  }
}
