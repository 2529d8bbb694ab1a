// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderSystem
import LarderTesting

// What types with a budget, snapshots over several types and pages promise while everybody writes.

extension Worker {
  // MARK: Budgets

  /// Is read or saved by everybody all the time.
  private static let favourite = 0

  /// Saves, reads and deletes objects of a type with a budget. Each has one writer, and may be gone
  /// at any time; what is there is never old.
  func keepBounded() {
    let objects = ObjectStore(store)
    let own = OracleRegion.bounded.own(place.index, of: place.count).filter { $0 != Self.favourite }
    loop {
      guard try isFavouriteThere(objects) else { return }
      let key = own.randomElement()!
      switch Int.random(in: 0..<20) {
      case 0..<8: try saveBounded([key], objects)
      case 8..<12: try saveBounded(own.shuffled().prefix(4).sorted(), objects)
      case 12: try deleteBounded(key, objects)
      case 13: try refuseTooLarge(key, objects)
      case 14: try askBounded(objects)
      case 15 where Int.random(in: 0..<4) == 0:
        for finding in try store.verify() { violation("verify: \(finding)") }
      default: try readBounded(OracleRegion.bounded.keys.randomElement()!, objects)
      }
      try judgeUsage(objects)
    }
  }

  /// Uses the object that is always in use.
  ///
  /// - Returns: Whether it is there; one process saves it, once.
  private func isFavouriteThere(_ objects: ObjectStore) throws -> Bool {
    let key = Self.favourite
    let acknowledged = board.value(.bounded, key, .acknowledged)
    if try objects.object(StressThumb.self, id: key) != nil { return true }
    if acknowledged > 0, plan.judgesRecency {
      violation("an object that is always in use was evicted")
    }
    guard place.index == 0 else { return acknowledged > 0 && !plan.judgesRecency }
    let sequence = board.issue(.bounded, key)
    try objects.save(StressThumb(key, sequence))
    board.raise(.bounded, key, .acknowledged, to: sequence)
    return true
  }

  private func saveBounded(_ keys: [Int], _ objects: ObjectStore) throws {
    let batch = keys.map { StressThumb($0, board.issue(.bounded, $0)) }
    try objects.save(batch)
    for item in batch { board.raise(.bounded, item.id, .acknowledged, to: item.sequence) }
  }

  private func deleteBounded(_ key: Int, _ objects: ObjectStore) throws {
    let sequence = board.issue(.bounded, key)
    try objects.delete(StressThumb.self, id: key)
    board.raise(.bounded, key, .acknowledged, to: sequence)
  }

  /// What is larger than the budget is refused, and nothing goes for it.
  private func refuseTooLarge(_ key: Int, _ objects: ObjectStore) throws {
    let sequence = board.issue(.bounded, key)
    let large = StressThumb(key, sequence, size: StressThumb.bytes)
    let (before, after, isRefused) = try objects.write { transaction in
      let before = try transaction.fetch(objects.objects(StressThumb.self).where(\.group == 1))
      var isRefused = false
      do { try transaction.save(large) } catch let error as ObjectError
        where error.code == .tooLarge
      {
        isRefused = true
      }
      let after = try transaction.fetch(objects.objects(StressThumb.self).where(\.group == 1))
      return (before.map(\.sequence), after.map(\.sequence), isRefused)
    }
    if !isRefused { violation("an object of more than the whole budget was stored") }
    if before != after { violation("\(before) became \(after) for an object that was refused") }
  }

  private func readBounded(_ key: Int, _ objects: ObjectStore) throws {
    let acknowledged = board.value(.bounded, key, .acknowledged)
    try judgeBounded(objects.object(StressThumb.self, id: key), key, acknowledged: acknowledged)
  }

  func judgeBounded(_ thumb: StressThumb?, _ key: Int, acknowledged: UInt64) {
    guard let thumb else { return }
    if !thumb.isWhole(key) { violation("bounded object \(key) is torn") }
    judge(
      thumb.sequence, key, of: .bounded, "bounded object", acknowledged: acknowledged)
  }

  /// In one snapshot the indexes say what is stored.
  private func askBounded(_ objects: ObjectStore) throws {
    let all = objects.objects(StressThumb.self)
    if plan.judgesRecency {
      // Counting is no use of what is counted.
      let (sum, count) = try objects.read { snapshot in
        let sum = try (0..<5).reduce(0) { try $0 + snapshot.count(all.where(\.group == $1)) }
        return (sum, try snapshot.count(all))
      }
      if sum != count { violation("an index has \(sum) of \(count) bounded objects") }
      return
    }
    let tag = Int.random(in: 0..<3)
    let defects = try objects.read { snapshot in
      let stored = try snapshot.fetch(all)
      return Self.indexDefects(
        stored, groups: try (0..<5).map { try snapshot.fetch(all.where(\.group == $0)).map(\.id) },
        tag: tag, tagged: try snapshot.fetch(all.where { $0.tags.contains(tag) }).map(\.id))
    }
    for defect in defects { violation(defect) }
  }

  static func indexDefects(
    _ stored: [StressThumb], groups: [[Int]], tag: Int, tagged: [Int]
  ) -> [String] {
    var defects: [String] = []
    if stored.count > StressThumb.count { defects.append("\(stored.count) objects are stored") }
    for (group, found) in groups.enumerated() {
      if found.sorted() != stored.filter({ $0.group == group }).map(\.id).sorted() {
        defects.append("the index of group \(group) and the bounded objects disagree")
      }
    }
    if tagged.sorted() != stored.filter({ $0.tags.contains(tag) }).map(\.id).sorted() {
      defects.append("the index of tag \(tag) and the bounded objects disagree")
    }
    return defects
  }

  /// The books, after whatever was committed last.
  func judgeUsage(_ objects: ObjectStore) throws {
    let usage = try objects.usage(of: StressThumb.self)
    if usage.count > StressThumb.count || usage.bytes.bytes > StressThumb.bytes {
      violation("\(usage.count) bounded objects of \(usage.bytes.bytes) bytes are stored")
    }
  }

  // MARK: Snapshots

  /// Moves amounts between two types in transactions, and looks at both in one snapshot.
  func move() {
    let objects = ObjectStore(store)
    let accounts = objects.objects(StressAccount.self)
    let vaults = objects.objects(StressVault.self)
    loop {
      if Bool.random() {
        try objects.write { transaction in
          let (from, to) = (StressBank.ids.randomElement()!, StressBank.ids.randomElement()!)
          guard let account = try transaction.object(StressAccount.self, id: from),
            let vault = try transaction.object(StressVault.self, id: to)
          else {
            // Nothing at all is there yet.
            try transaction.save(
              StressBank.ids.map { StressAccount(id: $0, amount: StressBank.total / 6) })
            return try transaction.save(StressBank.ids.map { StressVault(id: $0, amount: 0) })
          }
          let amount = Int.random(in: -500...500)
          try transaction.save(StressAccount(id: from, amount: account.amount - amount))
          try transaction.save(StressVault(id: to, amount: vault.amount + amount))
        }
      }
      let isByID = Bool.random()
      let defect = try objects.read { snapshot in
        if isByID {
          let first = try StressBank.ids.compactMap {
            try snapshot.object(StressAccount.self, id: $0)
          }
          let second = try StressBank.ids.compactMap {
            try snapshot.object(StressVault.self, id: $0)
          }
          return StressBank.defect(first, second)
        }
        return StressBank.defect(
          try snapshot.fetch(accounts),
          try snapshot.fetch(vaults.where(\.amount >= Int.min).sorted(by: \.amount)))
      }
      if let defect { violation("a snapshot: \(defect)") }
    }
  }

  // MARK: Pages

  /// Inserts, changes and deletes, and walks page by page.
  func turnPages() {
    let objects = ObjectStore(store)
    let own = OracleRegion.paged.own(place.index, of: place.count)
    loop {
      for _ in 0..<Int.random(in: 0...6) {
        try comeAndGo(own.randomElement()!, objects)
        board.beat(slot)
      }
      try walk(objects)
    }
  }

  private func comeAndGo(_ key: Int, _ objects: ObjectStore) throws {
    guard let known = try objects.object(StressPage.self, id: key) else {
      let birth = board.issue(.paged, key)
      try objects.save(StressPage(key, birth: birth, version: birth))
      return board.raise(.paged, key, .acknowledged, to: birth)
    }
    if Int.random(in: 0..<3) == 0 {
      board.raise(.paged, key, .deletionIssued, to: known.birth)
      try objects.delete(StressPage.self, id: key)
    } else {
      try objects.save(StressPage(key, birth: known.birth, version: known.version + 1))
    }
  }

  /// Whatever was there all the time is met once, and nothing twice.
  private func walk(_ objects: ObjectStore) throws {
    let all = objects.objects(StressPage.self)
    let query =
      switch Int.random(in: 0..<5) {
      case 0: all
      case 1: all.sorted(by: \.rank)
      case 2: all.sorted(by: \.rank, .descending)
      case 3: all.sorted(by: \.weight)
      default: all.sorted(by: \.weight, .descending).sorted(by: \.rank)
      }
    let before = OracleRegion.paged.keys.map { board.value(.paged, $0, .acknowledged) }
    var seen: [Int: [UInt64]] = [:]
    var page = try query.page(size: Int.random(in: 1...9))
    while true {
      for object in page.objects {
        if seen[object.id, default: []].contains(object.birth) {
          violation("object \(object.id) is on two pages")
        }
        seen[object.id, default: []].append(object.birth)
      }
      guard let next = page.next else { break }
      page = try query.page(after: next, size: Int.random(in: 1...9))
      board.beat(slot)
    }
    for key in OracleRegion.paged.keys where before[key] > 0 {
      let isStill = board.value(.paged, key, .deletionIssued) < before[key]
      if isStill, seen[key] != [before[key]] {
        violation("object \(key) was there all the time and is on no page of \(query)")
      }
    }
  }
}
