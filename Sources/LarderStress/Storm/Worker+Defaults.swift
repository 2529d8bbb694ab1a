// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderDefaults
import LarderEngine
import LarderSystem
import LarderTesting
import Synchronization

// Defaults: each key has one writer at a time; counters are everybody's.

extension Worker {
  private func openDefaults() throws -> Defaults {
    let defaults = try Defaults(at: directory + "/defaults")
    let board = board
    defaults.onError { Worker.judge($0, board) }
    return defaults
  }

  static func defaultName(_ key: Int) -> String { "key \(key)" }
  static func counterName(_ key: Int) -> String { "counter \(key)" }

  /// Half of the keys are numbers, half are structures.
  static func defaultSequence(_ key: Int, _ defaults: Defaults) throws -> UInt64? {
    if key % 2 == 0 {
      return try defaults.value(Int.self, forKey: defaultName(key)).map(UInt64.init(_:))
    }
    let value = try defaults.value(StressValue.self, forKey: defaultName(key))
    return value.map { $0.isWhole(key) ? $0.sequence : .max }
  }

  /// Sets its own keys, counts in everybody's, and reads all.
  func setDefaults() throws {
    let first = try openDefaults()
    var second = try openDefaults()
    let own = OracleRegion.defaults.own(place.index, of: place.count)
    let pid = ProcessIdentity.pid
    loop {
      let defaults = Bool.random() ? first : second
      switch Int.random(in: 0..<12) {
      case 0..<3: try setDefault(own.randomElement()!, defaults)
      case 3..<5: try countDefault(OracleRegion.defaultCounters.keys.randomElement()!, defaults)
      case 5 where Int.random(in: 0..<8) == 0:
        second.close()
        second = try openDefaults()
      case 6:
        // Whoever asks first decides for all.
        let key = OracleRegion.defaultsOnce.keys.randomElement()!
        let found = try UInt64(defaults.value(forKey: "once \(key)", storing: Int(pid)))
        let decided = board.settle(.defaultsOnce, key, on: found)
        if found != decided { violation("once \(key) is \(found), and was \(decided)") }
      default:
        for _ in 0..<50 {
          let key = OracleRegion.defaults.keys.randomElement()!
          let acknowledged = board.value(.defaults, key, .acknowledged)
          let found = try Self.defaultSequence(key, defaults)
          judge(found, key, of: .defaults, "default", acknowledged: acknowledged)
          // This process has been told: from here on nobody may read anything older.
          if let found { board.raise(.defaults, key, .acknowledged, to: found) }
        }
      }
    }
    first.close()
    second.close()
  }

  private func setDefault(_ key: Int, _ defaults: Defaults) throws {
    let sequence = board.issue(.defaults, key)
    if key % 2 == 0 {
      try defaults.setValue(Int(sequence), forKey: Self.defaultName(key))
    } else {
      let value = StressValue(key: key, sequence: sequence)
      try defaults.setValue(value, forKey: Self.defaultName(key))
    }
    board.raise(.defaults, key, .acknowledged, to: sequence)
  }

  private func countDefault(_ key: Int, _ defaults: Defaults) throws {
    let acknowledged = board.value(.defaultCounters, key, .acknowledged)
    board.add(.defaultCounters, key, .issued)
    let count = try defaults.update(Int.self, forKey: Self.counterName(key)) {
      $0 = ($0 ?? 0) + 1
    }
    board.add(.defaultCounters, key, .acknowledged)
    judgeCounter(
      UInt64(count ?? 0), key, of: .defaultCounters, "counter", atLeast: acknowledged + 1)
  }

  // MARK: Watching

  /// What a stream has delivered.
  private final class Delivered: Sendable {
    let sequence = Atomic<UInt64>(0)
  }

  /// Watches some keys: nothing goes backwards, and the last value comes in time.
  func watchDefaults() async throws {
    let defaults = try openDefaults()
    let keys = Array(OracleRegion.defaults.keys.filter { $0 % 2 == 0 }.shuffled().prefix(4))
    let delivered = keys.map { _ in Delivered() }
    let tasks = zip(keys, delivered).map { key, delivered in
      Task.detached { [self] in
        while !board.isOver, !Task.isCancelled {
          do {
            let values = defaults.values(of: DefaultsKey<Int>(Self.defaultName(key), default: 0))
            for try await value in values {
              let before = delivered.sequence.exchange(UInt64(value), ordering: .relaxed)
              if value < before { violation("a watch gave \(value) of \(key) after \(before)") }
              if value > board.value(.defaults, key, .issued) {
                violation("a watch gave \(value) of \(key), which was never issued")
              }
            }
          } catch {
            Worker.judge(error, board)
          }
        }
      }
    }
    let pause = Event()
    while !board.isOver {
      let wanted = keys.map { board.value(.defaults, $0, .acknowledged) }
      var turns = 0
      while !board.isOver {
        board.beat(slot)
        board.add(.operations)
        let isThere = zip(delivered, wanted).allSatisfy {
          $0.sequence.load(ordering: .relaxed) >= $1
        }
        if isThere { break }
        turns += 1
        if turns > Self.watchTurns {
          violation("a watch has not given what was acknowledged, after \(turns) turns")
          break
        }
        pause.wait(nanoseconds: 5_000_000)
      }
      pause.wait(nanoseconds: 1_000_000)
    }
    for task in tasks { task.cancel() }
    for task in tasks { await task.value }
    defaults.close()
  }

  /// How long the last value may be under way, in time of this process: well within a round.
  private static let watchTurns = 400
}
