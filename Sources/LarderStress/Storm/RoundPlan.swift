// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Larder
import LarderEngine
import LarderTesting

// A storm is a row of rounds. Each has a fresh store and options of its own, drawn from the storm's
// seed and its number: what a round does, who is in it, when it kills whom. The scheduler of the
// machine is not part of the plan, so a round that failed may have to be run a few times.

/// What a round is about; they take turns.
enum RoundWorkload: String, CaseIterable, Sendable, ExpressibleByArgument {
  case cache, objects
  /// Types with a budget, snapshots over several types, pages.
  case collections
  /// Defaults and storages.
  case facades
}

/// What a process of a storm does.
enum Role: String, CaseIterable, Sendable {
  /// Writes keys that are its own, in every way there is.
  case writer
  /// Reads everybody's keys from memory as fast as it can.
  case reader
  /// Computes under single flight, and invalidates.
  case flight
  /// Counts in transactions, and writes pairs of keys in one.
  case counter
  /// Reads and writes keys that others write too, and logs when.
  case register
  /// Fills the store to its budget and watches the books.
  case budgetFiller
  /// Opens and closes.
  case opener
  /// Compacts, verifies, looks at the statistics.
  case maintainer

  // Of objects.

  /// Saves, merges and deletes objects that are its own.
  case objectWriter
  /// Fetches everybody's objects by id, from memory and from the store.
  case objectReader
  /// Asks by an index and without it, and asks again.
  case query
  /// Races for the keys of a unique index.
  case index
  /// Saves and deletes parents with their children.
  case family
  /// The older version of a program, and the newer one, which migrates.
  case oldProgram, newProgram
  /// Watches an object and a query.
  case observer

  // Of collections.

  /// Saves, reads and deletes objects of a type with a budget, and watches its books.
  case bounded
  /// Moves amounts between two types, and looks at both in one snapshot.
  case transferrer
  /// Walks page by page while it and others insert and delete.
  case pager

  // Of the facades.

  /// Sets and counts defaults.
  case defaults
  /// Watches defaults.
  case defaultsWatcher
  /// Sets and counts in storages that processes share: files, the store, one in front of the other.
  case storage

  /// Whether it notices only after a while, and so is killed seldom.
  var isPatient: Bool { self == .observer || self == .defaultsWatcher }
}

/// One round of a storm, as its seed has it.
struct RoundPlan: Sendable {
  let seed: UInt64
  let durability: Durability
  let hashBits: Int
  /// Bytes; small: entries are evicted, and any value may be missing.
  let budget: Int
  let roles: [Role]
  let usesBoardClock: Bool
  let compacts: Bool
  /// At the end everybody is killed at once, instead of being asked to end.
  let endsByKill: Bool
  let theme: RoundWorkload
  /// Whether no bounded object that is always in use may be evicted: that can be told only while
  /// nobody reads all of them, and where no hash or move of files makes the uses of many one.
  let judgesRecency: Bool

  var mayVanish: Bool { budget < 8 << 20 }

  init(seed: UInt64, round: Int, processes: Int) {
    let base = Seed(seed).derived(UInt64(round))
    var random = base.generator()
    self.seed = base.value
    durability = random.chance(25) ? .durable : random.chance(25) ? .relaxed : .cache
    let bits = [64, 64, 64, 16, 5].randomElement(using: &random)!
    theme = RoundWorkload.allCases[round % RoundWorkload.allCases.count]
    let isTight = theme == .cache && random.chance(25)
    budget = isTight ? 1 << 20 : 64 << 20
    usesBoardClock = random.chance(60)
    let mayCompact = random.chance(40)
    endsByKill = random.chance(50)
    let turn = round / RoundWorkload.allCases.count
    judgesRecency = theme == .collections && turn % 2 == 0
    hashBits = judgesRecency ? 64 : bits
    compacts = mayCompact && !judgesRecency
    // Two are always there; then whoever makes trouble for them.
    var roles: [Role]
    var others: [Role] = []
    switch theme {
    case .cache:
      roles = [.writer, .reader]
      others = [.writer, .reader, .flight, .opener]
      others += isTight ? [.budgetFiller, .budgetFiller] : [.counter, .register, .register]
      if compacts || random.chance(50) { others.append(.maintainer) }
      others.shuffle(using: &random)
    case .objects:
      roles = [.objectWriter, .objectReader]
      // A program of each version, or neither.
      let groups: [[Role]] = [
        [.query, .objectWriter], [.index, .index], [.family, .family], [.oldProgram, .newProgram],
        [.observer, .query],
      ]
      // Two of them a round of six: three rounds have met them all.
      let first = Int(seed % 5) + 2 * turn
      others = groups.indices.flatMap { groups[(first + $0) % groups.count] }
      if compacts { others.insert(.maintainer, at: 4) }
    case .collections:
      roles = [.bounded, .bounded]
      others = [.transferrer, .pager, .transferrer, .pager]
      if compacts { others.insert(.maintainer, at: 3) }
    case .facades:
      roles = [.defaults, .storage]
      others = [.storage, .defaults, .defaultsWatcher, .storage]
    }
    while roles.count < processes { roles.append(others[(roles.count - 2) % others.count]) }
    self.roles = roles
  }

  /// The options of one process. Durability and budget are the store's; the rest is its own.
  func options(_ worker: Int, _ board: StormOracle) -> StoreOptions {
    var random = Seed(seed).derived(UInt64(worker)).generator()
    var options = StoreOptions(
      durability: durability, budget: .bytes(budget), openTimeout: .seconds(60),
      writeTimeout: random.chance(50) ? .seconds(30) : .milliseconds(200))
    options.hashBits = hashBits
    if usesBoardClock { options.clock = StoreClock { board.clock } }
    return options
  }

  func cacheOptions(_ worker: Int) -> CacheOptions {
    var random = Seed(seed).derived(UInt64(1000 + worker)).generator()
    return CacheOptions(
      memoryCostLimit: random.chance(25) ? .kilobytes(8) : .megabytes(16),
      memoryCountLimit: random.chance(25) ? 5 : 100_000)
  }
}

/// Which keys there are, and in which namespace.
enum LedgerKeys {
  /// Are never removed.
  static let kept = 0..<24
  /// Are removed, one by one and all at once.
  static let removed = 24..<32
  /// Expire.
  static let expiring = 32..<40

  static func namespace(_ key: Int) -> String {
    if kept.contains(key) { return "kept" }
    return removed.contains(key) ? "removed" : "expiring"
  }
}

/// Which objects there are.
enum ItemKeys {
  /// Are never deleted.
  static let kept = 0..<32
  /// Are deleted and come again.
  static let transient = 32..<44
  /// Of a type of their own, deleted all at once.
  static let bulk = 44..<52
}
