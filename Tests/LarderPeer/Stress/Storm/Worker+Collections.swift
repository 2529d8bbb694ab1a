// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderEngine
import LarderObjects
import LarderTesting

// Types with a budget, snapshots of several types, and pages, while other processes write.

extension Worker {
  // MARK: Budgets

  /// The object that every worker reads before each operation, so it must never be evicted.
  private static let favourite = 0

  /// Saves, reads and deletes objects of a type with a budget. Each has one writer and may be
  /// evicted at any time; a value that is read is never old.
  func saveBounded() -> [Operation] {
    let objects = ObjectStore(store)
    let own = OracleRegion.bounded.own(place).filter { $0 != Self.favourite }
    func operation(_ weight: Int, _ step: @escaping () throws -> Void) -> Operation {
      Operation(weight) {
        guard try self.isFavouriteStored(objects) else { return }
        try step()
        try self.checkUsage(objects)
      }
    }
    return [
      operation(32) { try self.saveBounded([own.randomElement()!], objects) },
      operation(16) { try self.saveBounded(own.shuffled().prefix(4).sorted(), objects) },
      operation(4) {
        let write = self.board.issue(own.randomElement()!, of: .bounded)
        try objects.delete(StressThumb.self, id: write.key)
        self.board.acknowledge(write, of: .bounded)
      },
      operation(4) { try self.rejectTooLarge(own.randomElement()!, objects) },
      operation(4) { try self.queryBounded(objects) },
      operation(1) { try self.verify(self.store) },
      operation(19) {
        let key = OracleRegion.bounded.keys.randomElement()!
        try self.check(key, of: .bounded) { try objects.object(StressThumb.self, id: key) }
      },
    ]
  }

  /// Reads the favourite. The first process of the role saves it, once.
  private func isFavouriteStored(_ objects: ObjectStore) throws -> Bool {
    let key = Self.favourite
    let acknowledged = board[.bounded, key, .acknowledged]
    if try objects.object(StressThumb.self, id: key) != nil { return true }
    if acknowledged > 0, plan.judgesRecency {
      violation("an object that is always in use was evicted")
    }
    guard place.index == 0 else { return acknowledged > 0 && !plan.judgesRecency }
    try saveBounded([key], objects)
    return true
  }

  private func saveBounded(_ keys: [Int], _ objects: ObjectStore) throws {
    let writes = board.issue(keys, of: .bounded)
    // Between a read of the favourite and the commit of that worker, other workers commit. Four large
    // objects of them are the whole budget, and evict the favourite by right.
    let isSmall = plan.judgesRecency
    try objects.save(
      writes.map { StressThumb($0, size: isSmall ? StressThumb.smallSize($0.sequence) : nil) })
    board.acknowledge(writes, of: .bounded)
  }

  /// Saves an object larger than the budget: it throws `tooLarge` and evicts nothing.
  private func rejectTooLarge(_ key: Int, _ objects: ObjectStore) throws {
    let large = StressThumb(board.issue(key, of: .bounded), size: StressThumb.bytes)
    let (before, after, isRejected) = try objects.write { transaction in
      let group = objects.objects(StressThumb.self).where(\.group == 1)
      let before = try transaction.fetch(group)
      var isRejected = false
      do { try transaction.save(large) } catch let error as ObjectError
        where error.code == .tooLarge
      {
        isRejected = true
      }
      return (
        before.map(\.sequence), try transaction.fetch(group).map(\.sequence), isRejected
      )
    }
    if !isRejected { violation("an object larger than the budget was stored") }
    if before != after { violation("\(before) became \(after) for an object that was rejected") }
  }

  /// Compares the indexes with the stored objects in one snapshot.
  private func queryBounded(_ objects: ObjectStore) throws {
    let all = objects.objects(StressThumb.self)
    if plan.judgesRecency {
      // A count does not use the counted objects; a fetch would.
      let (sum, count) = try objects.read { snapshot in
        let sum = try (0..<5).reduce(0) { try $0 + snapshot.count(all.where(\.group == $1)) }
        return (sum, try snapshot.count(all))
      }
      if sum != count { violation("an index has \(sum) of \(count) bounded objects") }
      return
    }
    let tag = Int.random(in: 0..<3)
    let defects = try objects.read { snapshot in
      try Self.indexDefects(objects, tag: tag) { try snapshot.fetch($0) }
    }
    for defect in defects { violation(defect) }
  }

  static func indexDefects(
    _ objects: ObjectStore, tag: Int, _ fetch: (Query<StressThumb>) throws -> [StressThumb]
  ) throws -> [String] {
    let all = objects.objects(StressThumb.self)
    let stored = try fetch(all)
    var defects: [String] = []
    if stored.count > StressThumb.count { defects.append("\(stored.count) objects are stored") }
    for group in 0..<5 {
      let found = try fetch(all.where(\.group == group)).map(\.id)
      if found.sorted() != stored.filter({ $0.group == group }).map(\.id).sorted() {
        defects.append("the index of group \(group) and the bounded objects disagree")
      }
    }
    let words = try fetch(all.matching("group* NOT \"tag\(tag) tag\"")).map(\.id)
    if words.sorted() != stored.filter({ !$0.tags.contains(tag) }).map(\.id).sorted() {
      defects.append("the words without tag \(tag) and the bounded objects disagree")
    }
    let tagged = try fetch(all.where { $0.tags.contains(tag) }).map(\.id)
    if tagged.sorted() != stored.filter({ $0.tags.contains(tag) }).map(\.id).sorted() {
      defects.append("the index of tag \(tag) and the bounded objects disagree")
    }
    return defects
  }

  /// Checks the counters of the type against its budget after the last commit.
  func checkUsage(_ objects: ObjectStore) throws {
    let usage = try objects.usage(of: StressThumb.self)
    if usage.count > StressThumb.count || usage.bytes.bytes > StressThumb.bytes {
      violation("\(usage.count) bounded objects of \(usage.bytes.bytes) bytes are stored")
    }
  }

  // MARK: Snapshots

  /// Moves amounts between two types in transactions, and reads both in one snapshot.
  func transfer() -> [Operation] {
    let objects = ObjectStore(store)
    return [
      Operation(1) {
        if Bool.random() { try self.move(objects) }
        let isByID = Bool.random()
        let defect = try objects.read { snapshot in
          if isByID {
            return StressBank.defect(
              try StressBank.ids.compactMap { try snapshot.object(StressAccount.self, id: $0) },
              try StressBank.ids.compactMap { try snapshot.object(StressVault.self, id: $0) })
          }
          let vaults = objects.objects(StressVault.self)
          return StressBank.defect(
            try snapshot.fetch(objects.objects(StressAccount.self)),
            try snapshot.fetch(vaults.where(\.amount >= Int.min).sorted(by: \.amount)))
        }
        if let defect { self.violation("a snapshot: \(defect)") }
      }
    ]
  }

  private func move(_ objects: ObjectStore) throws {
    let (from, to) = (StressBank.ids.randomElement()!, StressBank.ids.randomElement()!)
    try objects.write { transaction in
      guard let account = try transaction.object(StressAccount.self, id: from),
        let vault = try transaction.object(StressVault.self, id: to)
      else {
        // The first transaction of the round.
        try transaction.save(
          StressBank.ids.map { StressAccount(id: $0, amount: StressBank.total / 6) })
        return try transaction.save(StressBank.ids.map { StressVault(id: $0, amount: 0) })
      }
      let amount = Int.random(in: -500...500)
      try transaction.save(StressAccount(id: from, amount: account.amount - amount))
      try transaction.save(StressVault(id: to, amount: vault.amount + amount))
    }
  }

  // MARK: Pages

  /// Inserts, changes and deletes objects, and reads all of them page by page.
  func turnPages() -> [Operation] {
    let objects = ObjectStore(store)
    let own = OracleRegion.paged.own(place)
    return [
      Operation(1) {
        for _ in 0..<Int.random(in: 0...6) {
          try self.insertOrDelete(own.randomElement()!, objects)
          self.beat()
        }
        try self.readPages(objects)
      }
    ]
  }

  private func insertOrDelete(_ key: Int, _ objects: ObjectStore) throws {
    guard let known = try objects.object(StressPage.self, id: key) else {
      let birth = board.issue(key, of: .paged)
      try objects.save(StressPage(key, birth: birth.sequence, version: birth.sequence))
      return board.acknowledge(birth, of: .paged)
    }
    if Int.random(in: 0..<3) == 0 {
      board.raise(.paged, key, .removalIssued, to: known.birth)
      try objects.delete(StressPage.self, id: key)
    } else {
      try objects.save(StressPage(key, birth: known.birth, version: known.version + 1))
    }
  }

  /// Checks that an object that exists for the whole time is on exactly one page.
  private func readPages(_ objects: ObjectStore) throws {
    let all = objects.objects(StressPage.self)
    let query =
      switch Int.random(in: 0..<5) {
      case 0: all
      case 1: all.sorted(by: \.rank)
      case 2: all.sorted(by: \.rank, .descending)
      case 3: all.sorted(by: \.weight)
      default: all.sorted(by: \.weight, .descending).sorted(by: \.rank)
      }
    let before = OracleRegion.paged.keys.map { board[.paged, $0, .acknowledged] }
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
      beat()
    }
    for key in OracleRegion.paged.keys where before[key] > 0 {
      let isStored = board[.paged, key, .removalIssued] < before[key]
      if isStored, seen[key] != [before[key]] {
        violation("object \(key) was stored for the whole time and is on no page of \(query)")
      }
    }
  }
}
#endif
