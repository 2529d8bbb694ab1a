// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderSystem
import LarderTesting

// Objects by id. As with the cache's keys, each has one writer at a time, so the order of issue is
// the order of commits.

extension Worker {
  /// Saves, merges and deletes objects that are its own, in every way there is.
  func saveObjects() throws {
    let writers = plan.roles.indices.filter { plan.roles[$0] == .objectWriter }
    let index = writers.firstIndex(of: slot)!
    func own(_ keys: Range<Int>) -> [Int] { keys.filter { $0 % writers.count == index } }
    let (kept, transient) = (own(ItemKeys.kept), own(ItemKeys.transient))
    let objects = ObjectStore(store)
    let items = objects.collection(StressItem.self)
    loop {
      switch Int.random(in: 0..<20) {
      case 0..<7: try save(kept.randomElement()!, objects)
      case 7..<11: try saveBatch(kept, objects)
      case 11..<13: try change(kept.randomElement()!, objects)
      case 13..<15: try merge(transient, index, objects)
      case 15..<18: try delete(transient, index, objects)
      case 18 where writers.count == 1: try saveBulk(objects)
      default:
        let key = kept.randomElement()!
        if let item = try items.object(id: key), !item.isWhole(key) {
          violation("object \(key) is torn")
        }
      }
    }
  }

  private func save(_ key: Int, _ objects: ObjectStore) throws {
    let sequence = board.issueItem(key)
    try objects.save(StressItem(key, sequence))
    board.raiseItem(key, .acknowledged, to: sequence)
  }

  private func saveBatch(_ keys: [Int], _ objects: ObjectStore) throws {
    let batch = keys.shuffled().prefix(4).map { StressItem($0, board.issueItem($0)) }
    try objects.save(batch)
    for item in batch { board.raiseItem(item.id, .acknowledged, to: item.sequence) }
  }

  /// Reads and writes in one transaction; another one is undone.
  private func change(_ key: Int, _ objects: ObjectStore) throws {
    let acknowledged = board.item(key, .acknowledged)
    let sequence = board.issueItem(key)
    let seen = try objects.write { transaction in
      let seen = try transaction.object(StressItem.self, id: key)?.sequence ?? 0
      try transaction.save(StressItem(key, sequence))
      let now = try transaction.object(StressItem.self, id: key)?.sequence
      return now == sequence ? seen : UInt64.max
    }
    board.raiseItem(key, .acknowledged, to: sequence)
    if seen < acknowledged || seen >= sequence {
      violation("object \(key) is \(seen) in the transaction of \(sequence)")
    }
    struct Undone: Error {}
    do {
      try objects.write { transaction in
        try transaction.save(StressItem(key, 0))
        try transaction.deleteAll(StressBulk.self)
        throw Undone()
      }
    } catch is Undone {}
  }

  /// Makes the transient objects of this writer exactly some.
  private func merge(_ keys: [Int], _ owner: Int, _ objects: ObjectStore) throws {
    let issued = keys.map { (key: $0, sequence: board.issueItem($0), isIn: Bool.random()) }
    for item in issued where !item.isIn {
      board.raiseItem(item.key, .deletionIssued, to: item.sequence)
    }
    let merged = issued.filter(\.isIn).map { StressItem($0.key, $0.sequence, owner: owner) }
    try objects.merge(merged, into: \StressItem.owner == owner && \StressItem.isKept == false)
    for item in issued { board.raiseItem(item.key, .acknowledged, to: item.sequence) }
  }

  private func delete(_ keys: [Int], _ owner: Int, _ objects: ObjectStore) throws {
    for key in keys where Bool.random() {
      let sequence = board.issueItem(key)
      try objects.save(StressItem(key, sequence, owner: owner))
      board.raiseItem(key, .acknowledged, to: sequence)
    }
    let gone = Bool.random() ? [keys.randomElement()!] : keys
    let issued = gone.map { key in
      let sequence = board.issueItem(key)
      board.raiseItem(key, .deletionIssued, to: sequence)
      return (key: key, sequence: sequence)
    }
    switch Int.random(in: 0..<3) {
    case 0 where gone.count == 1: try objects.delete(StressItem.self, id: gone[0])
    case 1 where gone.count > 1:
      try objects.objects(StressItem.self).where(
        \.owner == owner && \.isKept == false
      ).delete()
    default: try objects.delete(StressItem.self, ids: gone)
    }
    for item in issued {
      board.raiseItem(item.key, .acknowledged, to: item.sequence)
      if let found = try objects.object(StressItem.self, id: item.key),
        found.sequence < item.sequence
      {
        violation("object \(item.key) is there after deletion \(item.sequence)")
      }
    }
  }

  /// Saves objects of a type, and deletes everything of it; what is given up is swept meanwhile.
  private func saveBulk(_ objects: ObjectStore) throws {
    if Bool.random() {
      let batch = ItemKeys.bulk.map { StressBulk(id: $0, sequence: board.issueItem($0)) }
      try objects.save(batch)
      for item in batch { board.raiseItem(item.id, .acknowledged, to: item.sequence) }
      return
    }
    let issued = ItemKeys.bulk.map { key in
      let sequence = board.issueItem(key)
      board.raiseItem(key, .deletionIssued, to: sequence)
      return (key: key, sequence: sequence)
    }
    try objects.deleteAll(StressBulk.self)
    for item in issued { board.raiseItem(item.key, .acknowledged, to: item.sequence) }
  }

  // MARK: Reading

  /// Fetches as fast as it can. What was acknowledged before a fetch began must be seen by it.
  func readObjects() throws {
    let objects = ObjectStore(store)
    let items = objects.collection(StressItem.self)
    var newest = [UInt64](repeating: 0, count: ItemKeys.bulk.upperBound)
    var random = SplitMix64(state: UInt64.random(in: 0...UInt64.max))
    var reads: UInt64 = 0
    while true {
      reads &+= 1
      if reads & 0x3FF == 0 {
        board.beat(slot)
        board.add(.reads, 0x400)
        if board.isOver { break }
        do { try readSlowly(objects) } catch { Worker.judge(error, board) }
      }
      let key = Int(random.next() % UInt64(ItemKeys.kept.count))
      let acknowledged = board.item(key, .acknowledged)
      do {
        let item = try items.object(id: key)
        judge(item, key, acknowledged: acknowledged)
        guard let item else { continue }
        if item.sequence < newest[key] {
          violation("object \(key) read as \(item.sequence) after \(newest[key])")
        }
        newest[key] = item.sequence
        if item.sequence > acknowledged {
          board.raiseItem(key, .acknowledged, to: item.sequence)
        }
      } catch {
        Worker.judge(error, board)
      }
    }
  }

  /// Cold, from a memory of its own; what comes and goes; every byte.
  private func readSlowly(_ known: ObjectStore) throws {
    let cold = ObjectStore(store)
    for objects in [cold, known] {
      let keys = [ItemKeys.kept.randomElement()!, ItemKeys.transient.randomElement()!]
      for key in keys {
        let acknowledged = board.item(key, .acknowledged)
        let item = try objects.object(StressItem.self, id: key)
        judge(item, key, acknowledged: acknowledged)
        if let item, !item.isWhole(key) { violation("object \(key) is torn") }
      }
      let key = ItemKeys.bulk.randomElement()!
      let acknowledged = board.item(key, .acknowledged)
      let found = try objects.object(StressBulk.self, id: key)?.sequence
      judgeSequence(found, key, acknowledged: acknowledged)
    }
  }

  /// Looks at what a fetch gave.
  ///
  /// - Parameter acknowledged: The board's word before the fetch.
  func judge(_ item: StressItem?, _ key: Int, acknowledged: UInt64) {
    if let item, !item.isOwn(key) { violation("object \(key) is \(item.id), \(item.sequence)") }
    judgeSequence(item?.sequence, key, acknowledged: acknowledged)
  }

  func judgeSequence(_ sequence: UInt64?, _ key: Int, acknowledged: UInt64) {
    guard let sequence else {
      if acknowledged > 0, board.item(key, .deletionIssued) < acknowledged {
        violation("object \(key) is missing, \(acknowledged) was acknowledged")
      }
      return
    }
    if sequence < acknowledged {
      violation("object \(key) read as \(sequence), \(acknowledged) was acknowledged")
    }
    if sequence > board.item(key, .issued) { violation("object \(key) was never issued") }
  }
}
