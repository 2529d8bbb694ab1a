// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderDefaults
import LarderEngine
import LarderRecovery
import LarderTesting
import Testing

/// Writers that are killed while others write and read.
@Suite(.serialized, .timeLimit(.minutes(60)))
struct DefaultsKillTests {
  /// The task of one writer, over as many processes as it takes.
  private struct Writer {
    let ground: StoreFixture
    let prefix: String
    let count = 200
    var random: SeededRandom

    /// - Returns: What was wrong.
    mutating func run() throws -> [String] {
      var mistakes: [String] = []
      var next = 0
      var kills = 0
      while next < count {
        let peer = try ground.peer()
        // A process that is faster than this reader writes at most a quarter of the values.
        let limit = min(next + count / 4, count)
        try peer.send("defaults acked \(prefix) \(next) \(limit)")
        let end = min(next + Int.random(in: 1...40, using: &random), limit)
        while next < end { next = try acknowledged(by: peer.nextLine(), next, &mistakes) }
        peer.kill()
        _ = try peer.wait()
        kills += 1
        // Values that it reported before it died hold too.
        for line in try peer.remainingLines() where line.hasPrefix("ack ") {
          next = acknowledged(by: line, next, &mistakes)
        }
        // One more may be there that it had no time to report: then all of it is.
        let last = try ground.defaults.value(Int.self, forKey: prefix) ?? -1
        let own = try ground.defaults.value(Int.self, forKey: "\(prefix)\(next)")
        if last != next - 1, !(last == next && own == next) {
          mistakes.append("\(prefix) has \(last) after \(next - 1), with \(own ?? -1)")
        }
      }
      if kills < 4 { mistakes.append("\(prefix) was killed only \(kills) times") }
      return mistakes
    }

    /// The next number; what was acknowledged is seen by the next read here, from memory too.
    private func acknowledged(by line: String, _ next: Int, _ mistakes: inout [String]) -> Int {
      guard line == "ack \(next)" else {
        mistakes.append("\(line) instead of \(next)")
        return count
      }
      for _ in 0..<3 {
        let last: Int = ground.defaults.get(key: prefix) ?? -1
        let own: Int = ground.defaults.get(key: "\(prefix)\(next)") ?? -1
        if last < next || own != next {
          mistakes.append("\(prefix) reads \(last) and \(own) after \(next) was acknowledged")
        }
      }
      return next + 1
    }
  }

  @Test func `What was acknowledged is kept and never read stale, though its writers are killed`()
    throws
  {
    let ground = try StoreFixture()
    let seed = Seed.announce()
    let threads = (0..<3).map { index in
      JoinableThread { () -> [String] in
        var writer = Writer(
          ground: ground, prefix: "p\(index)-", random: seed.generator(stream: UInt64(index)))
        do { return try writer.run() } catch { return ["\(error)"] }
      }
    }
    for thread in threads { #expect(thread.join() == [], "\(seed)") }
    #expect(ground.errors.all == [])
    #expect(try ground.defaults.keys().count == 603, "\(seed)")
    for prefix in ["p0-", "p1-", "p2-"] {
      for index in 0..<200 {
        #expect(try ground.defaults.value(Int.self, forKey: "\(prefix)\(index)") == index)
      }
    }
    ground.defaults.close()
    let store = try SharedStore(at: ground.path, StoreOptions(durability: .durable))
    #expect(try store.verify() == [], "\(seed)")
    store.close()
  }
}
