// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderEngine
import LarderObjects
import LarderTesting

// Unique indexes and relationship rules, which concern several objects at once.

extension Worker {
  // MARK: Unique keys

  /// Races for keys of a unique index: at most one object has each.
  func claim() -> [Operation] {
    let objects = ObjectStore(store)
    // The previous process of this slot was killed: its claims are released.
    let own = (0..<4).map { slot * 100 + $0 + 1 }
    for key in OracleRegion.claims.keys {
      for id in own { board.release(.claims, key, UInt64(id)) }
    }
    attempt { try objects.delete(StressClaim.self, ids: own) }
    return [
      Operation(1) {
        let key = OracleRegion.claims.keys.randomElement()!
        let id = own.randomElement()!
        let other = StressClaim(id: own[0] + 50, key: 1000 + self.slot)
        do {
          // A batch is rejected completely if one of its objects is.
          try objects.save([StressClaim(id: id, key: key)] + (Bool.random() ? [] : [other]))
        } catch let error as ObjectError where error.code == .uniqueViolation {
          return self.judge(error, id)
        }
        let before = self.board.hold(.claims, key, UInt64(id))
        if before != 0 { self.violation("key \(key) belongs to \(before) and was given to \(id)") }
        let holders = try objects.objects(StressClaim.self).where(\.key == key).fetch()
        if holders.map(\.id) != [id] { self.violation("key \(key) of \(id) has \(holders)") }
        self.board.release(.claims, key, UInt64(id))
        self.deleteSurely(id, objects)
      }
    ]
  }

  private func judge(_ error: ObjectError, _ id: Int) {
    let ids = error.ids.compactMap { Int($0) }
    let isNamed = ids.count == 2 && ids[0] == id && ids[1] != id && error.index == "key"
    if !isNamed { violation("a unique violation: \(error.ids), \(error.index ?? "no index")") }
  }

  /// Deletes a claim that the oracle no longer records, so that it cannot be taken for a later one.
  private func deleteSurely(_ id: Int, _ objects: ObjectStore) {
    var isDeleted = false
    while !board.isOver, !isDeleted {
      beat()
      attempt {
        try objects.delete(StressClaim.self, id: id)
        isDeleted = true
      }
    }
  }

  // MARK: Families

  /// Saves parents with children, deletes both, and checks the invariants.
  func saveFamilies() -> [Operation] {
    let objects = ObjectStore(store)
    attempt {
      try objects.prepare(StressParent.self)
      try objects.prepare(StressFan.self)
      try objects.prepare(StressGuard.self)
    }
    func operation(_ weight: Int, _ step: @escaping (Int) throws -> Void) -> Operation {
      Operation(weight) {
        let id = Int.random(in: 0..<RelationshipInvariant.parentCount)
        try step(id)
        let found = try objects.write { transaction in
          try RelationshipInvariant.defects(of: id, objects, &transaction)
        }
        for defect in found { self.violation(defect) }
      }
    }
    return [
      operation(4) { try self.saveFamily($0, objects) },
      operation(2) { id in
        do {
          try objects.delete(StressParent.self, id: id)
        } catch let error as ObjectError where error.code == .deletionDenied {
          if error.ids.isEmpty { self.violation("a denied deletion names no referrer") }
        }
      },
      operation(1) { try self.deleteChild($0, objects) },
      operation(1) { try self.setGuard($0, objects) },
      operation(2) { _ in },
    ]
  }

  /// Replaces a whole family, unless it is guarded.
  private func saveFamily(_ id: Int, _ objects: ObjectStore) throws {
    let version = UInt64.random(in: 1...UInt64.max >> 8)
    let children = (0..<Int.random(in: 0...4)).map {
      StressChild(id: "\(id).\(version).\($0)", parent: id, version: version)
    }
    let fan = Int.random(in: 0..<4)
    do {
      try objects.write { transaction in
        try transaction.delete(StressParent.self, id: id)
        try transaction.save(StressParent(id: id, version: version, children: children))
        if let first = children.first {
          try transaction.save(StressFan(id: fan, favourite: first), children: .ignore)
        }
      }
    } catch let error as ObjectError where error.code == .deletionDenied {
      if error.type != StressParent.storedName { violation("denied: \(error)") }
    }
  }

  /// Deletes one child; the rules update its parent's list and its fans.
  private func deleteChild(_ id: Int, _ objects: ObjectStore) throws {
    try objects.write { transaction in
      guard let parent = try transaction.object(StressParent.self, id: id),
        let child = parent.children.first
      else { return }
      var smaller = parent
      smaller.children = Array(parent.children.dropFirst())
      try transaction.save(smaller)
      try transaction.delete(StressChild.self, id: child.id)
    }
  }

  private func setGuard(_ id: Int, _ objects: ObjectStore) throws {
    try objects.write { transaction in
      let parent = Bool.random() ? try transaction.object(StressParent.self, id: id) : nil
      try transaction.save(StressGuard(id: 0, ward: parent), children: .ignore)
    }
  }
}

/// The invariants of a family, checked in one transaction.
enum RelationshipInvariant {
  static let parentCount = 6

  static func defects(
    of id: Int, _ objects: ObjectStore, _ transaction: inout ObjectTransaction
  ) throws -> [String] {
    var found: [String] = []
    let children = try transaction.fetch(
      objects.objects(StressChild.self).where(\.parent == id))
    if let parent = try transaction.object(StressParent.self, id: id) {
      let missing = try parent.$children.missingIDs
      if !missing.isEmpty { found.append("parent \(id) has lost \(missing)") }
      if children.contains(where: { $0.version != parent.version })
        || Set(children.map(\.id)) != Set(parent.$children.ids)
      {
        found.append("parent \(id) has \(parent.$children.ids), stored are \(children.map(\.id))")
      }
    } else if !children.isEmpty {
      found.append("children \(children.map(\.id)) have outlived parent \(id)")
    }
    for fan in try transaction.fetch(objects.objects(StressFan.self)) {
      let missing = try fan.$favourite.missingIDs
      if !missing.isEmpty { found.append("fan \(fan.id) is left with \(missing)") }
    }
    for guardian in try transaction.fetch(objects.objects(StressGuard.self)) {
      let missing = try guardian.$ward.missingIDs
      if !missing.isEmpty { found.append("\(missing) was deleted, though it is guarded") }
    }
    return found
  }
}
#endif
