// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import Larder
import LarderEngine
import LarderTesting

// A storm is a sequence of rounds. Each has a fresh store, and takes its options, its roles and its
// kills from the storm's seed and the round's number. The scheduler of the machine is not part of
// the plan, so a failed round may have to be repeated a few times.

/// The subject of a round; rounds alternate between them.
enum RoundWorkload: String, CaseIterable, Sendable, ExpressibleByArgument {
  case cache, objects
  /// Types with a budget, snapshots over several types, pages.
  case collections
  /// Defaults and storages.
  case facades
}

/// The job of one process of a storm.
enum Role: String, CaseIterable, Sendable {
  /// Writes its own keys with every write operation.
  case writer
  /// Reads the keys of all processes from memory as fast as it can.
  case reader
  /// Computes under single flight, and invalidates.
  case flight
  /// Stores entries with tags, pinned and sliding entries, and removes by tag.
  case tagger
  /// Counts in transactions, and writes pairs of keys in one.
  case counter
  /// Reads and writes keys that others write too, and logs when.
  case register
  /// Fills the store to its budget and checks the counters.
  case budgetFiller
  /// Opens and closes.
  case opener
  /// Compacts, verifies and reads the statistics.
  case maintainer

  // Of objects.

  /// Saves, merges and deletes its own objects.
  case objectWriter
  /// Fetches the objects of all processes by identifier, from memory and from the store.
  case objectReader
  /// Runs queries with an index and without it, and repeats them.
  case query
  /// Races for the keys of a unique index.
  case index
  /// Saves and deletes parents with their children.
  case family
  /// The older version of a program, and the newer one, which migrates.
  case oldProgram, newProgram
  /// Observes an object and a query.
  case observer

  // Of collections.

  /// Saves, reads and deletes objects of a type with a budget, and checks its counters.
  case bounded
  /// Moves amounts between two types, and reads both in one snapshot.
  case transferrer
  /// Reads pages while it and other processes insert and delete.
  case pager

  // Of the facades.

  /// Sets and counts defaults.
  case defaults
  /// Observes defaults.
  case defaultsWatcher
  /// Sets values and counters in storages that processes share: files, the store, and both layered.
  case storage

  /// Whether it detects violations only after a while, and so is killed rarely.
  var isPatient: Bool { self == .observer || self == .defaultsWatcher }
}

/// One round of a storm, derived from its seed.
struct RoundPlan: Sendable {
  let seed: UInt64
  let durability: Durability
  let hashBits: Int
  /// Bytes. A small budget evicts entries, so that any value may be missing.
  let budget: Int
  let roles: [Role]
  let usesBoardClock: Bool
  let compacts: Bool
  /// Whether all processes are killed at once at the end, instead of being stopped by the oracle.
  let endsByKill: Bool
  let theme: RoundWorkload
  /// Whether the eviction of an object that is always in use is a violation. It is permitted while
  /// a process reads all objects, or while a short hash or a compaction merges the uses of many.
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
    // The first two are in every round; the others contend with them.
    var roles: [Role]
    var others: [Role] = []
    switch theme {
    case .cache:
      roles = [.writer, .reader]
      others = [.writer, .reader, .flight, .opener]
      others += isTight ? [.budgetFiller, .budgetFiller] : [.counter, .register, .register]
      if compacts || random.chance(50) { others.append(.maintainer) }
      others.shuffle(using: &random)
      // A computation and the removal of its tag are of two processes.
      others.insert(contentsOf: [.tagger, .tagger], at: turn % 2 == 0 ? 0 : others.count)
    case .objects:
      roles = [.objectWriter, .objectReader]
      // A program of each version, or neither.
      let groups: [[Role]] = [
        [.query, .objectWriter], [.index, .index], [.family, .family], [.oldProgram, .newProgram],
        [.observer, .query],
      ]
      // A round of six processes has two of the groups; three rounds have all of them.
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

  /// Returns the options of one process: the store's durability and budget, and random others.
  func options(_ worker: Int, _ board: StormOracle) -> StoreOptions {
    var random = Seed(seed).derived(UInt64(worker)).generator()
    var options = StoreOptions(
      durability: durability, budget: .bytes(budget), openTimeout: .seconds(300),
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
#endif
