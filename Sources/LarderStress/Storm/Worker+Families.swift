// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderSystem
import LarderTesting

// What indexes and rules promise about several objects at once.

extension Worker {
  // MARK: Unique keys

  /// Races for keys of a unique index: at most one has each.
  func claim() throws {
    let objects = ObjectStore(store)
    // Whoever had this place before was killed: what it held is given back.
    let own = (0..<4).map { slot * 100 + $0 + 1 }
    for key in 0..<StormOracle.claimCount { for id in own { board.letGo(key, UInt64(id)) } }
    loopOnce { try objects.delete(StressClaim.self, ids: own) }
    loop {
      let key = Int.random(in: 0..<StormOracle.claimCount)
      let id = own.randomElement()!
      do {
        // In a batch now and then: nothing of it is stored if one is refused.
        try objects.save(
          Bool.random()
            ? [StressClaim(id: id, key: key)]
            : [StressClaim(id: id, key: key), StressClaim(id: own[0] + 50, key: 1000 + slot)])
      } catch let error as ObjectError where error.code == .uniqueViolation {
        judge(error, id)
        return
      }
      let before = board.hold(key, UInt64(id))
      if before != 0 { violation("key \(key) is \(before)'s, and was given to \(id)") }
      let holders = try objects.objects(StressClaim.self).where(\.key == key).fetch()
      if holders.map(\.id) != [id] { violation("key \(key) of \(id) is \(holders)'s") }
      board.letGo(key, UInt64(id))
      try deleteSurely(id, objects)
    }
  }

  private func judge(_ error: ObjectError, _ id: Int) {
    let ids = error.ids.compactMap { Int($0) }
    let isNamed = ids.count == 2 && ids[0] == id && ids[1] != id && error.index == "key"
    if !isNamed { violation("a key that is taken: \(error.ids), \(error.index ?? "no index")") }
  }

  /// What this worker does not hold must not stay: its next claim of the same id would be another's.
  private func deleteSurely(_ id: Int, _ objects: ObjectStore) throws {
    while !board.isOver {
      board.beat(slot)
      do {
        if try objects.delete(StressClaim.self, id: id) { return }
        return
      } catch {
        Worker.judge(error, board)
      }
    }
  }

  private func loopOnce(_ body: () throws -> Void) {
    do { try body() } catch { Worker.judge(error, board) }
  }

  // MARK: Families

  private static let parentCount = 6

  /// Saves parents with children, deletes both, and looks whether any half is left.
  func raise() throws {
    let objects = ObjectStore(store)
    loopOnce {
      try objects.prepare(StressParent.self)
      try objects.prepare(StressFan.self)
      try objects.prepare(StressGuard.self)
    }
    loop {
      let id = Int.random(in: 0..<Self.parentCount)
      switch Int.random(in: 0..<10) {
      case 0..<4: try save(id, objects)
      case 4..<6:
        do {
          try objects.delete(StressParent.self, id: id)
        } catch let error as ObjectError where error.code == .deletionDenied {
          if error.ids.isEmpty { violation("a deletion is denied by nobody") }
        }
      case 6: try deleteChild(id, objects)
      case 7: try setGuard(id, objects)
      default: break
      }
      try judgeFamily(id, objects)
    }
  }

  /// Replaces a whole family, unless it is guarded.
  private func save(_ id: Int, _ objects: ObjectStore) throws {
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

  /// A child goes alone; its parent's list and its fans are the rules' to keep right.
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

  /// In one transaction: a family is whole or gone.
  private func judgeFamily(_ id: Int, _ objects: ObjectStore) throws {
    let found = try objects.write { transaction in
      try RelationshipInvariant.defects(of: id, objects, &transaction)
    }
    for defect in found { violation(defect) }
  }
}

/// What must hold of a family, seen in one transaction.
enum RelationshipInvariant {
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
