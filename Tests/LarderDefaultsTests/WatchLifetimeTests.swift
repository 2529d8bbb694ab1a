// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderDefaults
import LarderTesting
import Synchronization
import Testing

/// Something that lives long and that others watch through themselves.
private final class Station: PropertyWatchable {
  @Watched var level = 0
  var watchCount: Int { _level.watchCount }
}

/// Something that comes and goes.
private final class Listener: PropertyWatchable {
  let station: Station
  var endsItself = false
  var level: Int { station.level }
  init(_ station: Station) { self.station = station }
  deinit { if endsItself { unwatchAll() } }
}

// Sendable: its one property never changes.
private final class Reader: PropertyWatchable, @unchecked Sendable {
  let defaults: Defaults
  init(_ defaults: Defaults) { self.defaults = defaults }
  var title: String? { defaults.title }
}

/// Reports its deallocation.
private final class Token: Sendable {
  static let count = Atomic<Int>(0)
  init() { Token.count.wrappingAdd(1, ordering: .relaxed) }
  deinit { Token.count.wrappingSubtract(1, ordering: .relaxed) }
}

/// The state that released watchers leave. One at a time: all tokens have one count.
@Suite(.serialized, .timeLimit(.minutes(60)))
struct WatchLifetimeTests {
  @Test func `A source that never changes does not keep the watches of released objects`() {
    let station = Station()
    var most = 0
    for _ in 0..<10_000 {
      Listener(station).watch(\.level) {}
      most = max(most, station.watchCount)
    }
    #expect(most <= 20)
    // Remaining watches are kept, and notified in their order.
    let listeners = (0..<1000).map { _ in Listener(station) }
    var heard: [Int] = []
    for (index, listener) in listeners.enumerated() {
      listener.watch(\.level) { heard.append(index) }
    }
    station.level = 1
    #expect(heard == Array(0..<1000))
    #expect(station.watchCount == 1000)
  }

  @Test func `Ending in a deinit ends at once`() {
    let station = Station()
    let before = Token.count.load(ordering: .relaxed)
    for _ in 0..<5 {
      let listener = Listener(station)
      listener.endsItself = true
      let token = Token()
      listener.watch(\.level) { withExtendedLifetime(token) {} }
    }
    #expect(station.watchCount == 0)
    #expect(Token.count.load(ordering: .relaxed) == before)
  }

  @Test func `Watching from a deinit has no effect`() throws {
    final class Dying: PropertyWatchable {
      @Watched var name = "x"
      let defaults: Defaults
      var info: Log<Bool>
      init(_ defaults: Defaults, _ info: Log<Bool>) {
        self.defaults = defaults
        self.info = info
      }
      deinit {
        info.append(watch(\.name, options: .initial) { Issue.record("it was called") }.isWatching)
        name = "y"
        info.append(defaults.watch(\.title, id: "last words") {}.isWatching)
      }
    }
    let ground = try StoreFixture()
    let log = Log<Bool>()
    _ = Dying(ground.defaults, log)
    #expect(log.all == [false, true])
    #expect(ground.defaults.unwatch(forIds: ["last words"]) == ["last words": true])
  }

  @Test func `Tens of thousands of watches come and go without a search through all`() {
    // As a square of it, this would take minutes.
    let station = Station()
    for index in 0..<30_000 { station.watch(\.level, id: "\(index)") {} }
    #expect(station.watchCount == 30_000)
    for index in 0..<30_000 { station.watch(\.level, id: "\(index)") {} }
    #expect(station.watchCount == 30_000)
    station.unwatchAll()
    #expect(station.watchCount == 0)
    #expect(station.watching().isEmpty)
    var listeners: [Listener]? = (0..<30_000).map { _ in Listener(station) }
    for listener in listeners! { listener.watch(\.level) {} }
    listeners = nil
    station.level = 1
    #expect(station.watchCount == 0)
  }

  @Test func `A getter that reads thousands of properties is followed in time`() {
    final class Sum: PropertyWatchable {
      let stations = (0..<10_000).map { _ in Station() }
      var total: Int { stations.reduce(0) { $0 + $1.level } }
    }
    let sum = Sum()
    var heard: [Int] = []
    sum.watch(\.total, id: "total") { _, change in heard.append(change.newValue ?? -1) }
    for station in sum.stations.prefix(20) { station.level = 1 }
    #expect(heard == Array(1...20))
  }

  @Test func `Keys that were watched are forgotten with their last watch`() throws {
    let ground = try StoreFixture()
    let readers = (0..<20).map { _ in Reader(ground.defaults) }
    for reader in readers { reader.watch(\.title) {} }
    #expect(ground.defaults.watchedKeyCount == 1)
    for reader in readers { reader.unwatchAll() }
    #expect(ground.defaults.watchedKeyCount == 0)
    ground.defaults.watch(\.title) {}
    ground.defaults.unwatchAll()
    #expect(ground.defaults.watchedKeyCount == 0)
  }

  @Test func `Watches of released objects do not accumulate at a default that is never set`() throws
  {
    let ground = try StoreFixture()
    let before = Token.count.load(ordering: .relaxed)
    for _ in 0..<200 {
      let token = Token()
      Reader(ground.defaults).watch(\.title) { withExtendedLifetime(token) {} }
    }
    #expect(Token.count.load(ordering: .relaxed) - before <= 20)
    ground.defaults.close()
  }
}
