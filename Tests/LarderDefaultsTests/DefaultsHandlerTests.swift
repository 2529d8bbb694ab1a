// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderDefaults
import LarderTesting
import Synchronization
import Testing

extension DefaultsKeys {
  fileprivate static let steps = DefaultsKey<Int>("steps", default: 0)
}

extension Defaults {
  fileprivate var steps: Int {
    get { self[.steps] }
    set { self[.steps] = newValue }
  }
  fileprivate var other: Int {
    get { get(key: "other") ?? 0 }
    set { set(newValue) }
  }
  fileprivate var sum: Int { steps + other }
}

/// Operations that handlers of defaults may perform. They run on threads of Swift's pool.
@Suite(.timeLimit(.minutes(60)))
struct DefaultsHandlerTests {
  @Test func `A handler that sets its default is not called for that, and others are`() async throws
  {
    let ground = try StoreFixture()
    let peer = try ground.peer()
    let heard = Log<String>()
    ground.defaults.watch(\.steps, id: "counts", options: .old) { defaults, change in
      heard.append("counts \(change.oldValue ?? -1) \(change.newValue ?? -1)")
      defaults.steps += 1
    }
    let others = Log<Int>()
    ground.defaults.watch(\.steps, id: "hears") { _, change in
      others.append(change.newValue ?? -1)
    }
    ground.defaults.steps = 10
    await others.wait { $0 == 11 }
    try peer.send("defaults bump steps 1")
    try peer.expect("ok")
    await others.wait { $0 == 13 }
    // The handler's own 11 is the old value if the watch has seen it before the peer's 12.
    #expect(heard.all.first == "counts 0 10" && heard.all.count == 2)
    #expect(["counts 11 12", "counts 10 12"].contains(heard.all.last))
    #expect(ground.defaults.steps == 13)
    ground.defaults.unwatchAll()
  }

  @Test func `That holds for what it updates, removes, or writes with others, by any handle`()
    async throws
  {
    let ground = try StoreFixture()
    let second = try Defaults(at: ground.path)
    let (heard, done) = (Log<Int>(), Log<Int>())
    ground.defaults.watch(\.sum, id: "sum") { defaults, change in
      defer { done.append(change.newValue ?? -1) }
      heard.append(change.newValue ?? -1)
      do {
        switch heard.all.count {
        case 1: try defaults.update(.steps) { $0 += 1 }
        case 2: try second.setValue(100, forKey: "other")
        case 3: try defaults.removeValue(forKey: "steps")
        case 4:
          try second.write { values in
            try values.set(7, for: .steps)
            try values.setValue(7, forKey: "other")
          }
        default: break
        }
      } catch { Issue.record(error) }
    }
    for round in 1...5 {
      try await second.setValue(round * 1000, forKey: "steps")
      // The own write of the handler comes before the next one from here.
      await done.wait { $0 / 1000 == round }
    }
    let expected = [1000, 2000, 3100, 4100, 5007]
    #expect(heard.all == expected)
    ground.defaults.unwatchAll()
  }

  @Test func `A handler may end its watch, and throw the defaults away`() async throws {
    let ground = try StoreFixture()
    let once = Log<Int>()
    ground.defaults.watch(\.steps, id: "once") { defaults, change in
      defaults.unwatch(forIds: ["once"])
      once.append(change.newValue ?? -1)
    }
    let all = Log<Int>()
    ground.defaults.watch(\.steps, id: "all") { _, change in all.append(change.newValue ?? -1) }
    ground.defaults.steps = 1
    await all.wait { $0 == 1 }
    ground.defaults.steps = 2
    await all.wait { $0 == 2 }
    #expect(once.all == [1])
    ground.defaults.unwatchAll()

    let holder = Holder(try Defaults(at: ground.path))
    weak let weakly = holder.defaults
    let gone = Log<Bool>()
    holder.defaults?.watch(\.steps) { _, _ in
      holder.defaults = nil
      gone.append(true)
    }
    ground.defaults.steps = 3
    await gone.wait { $0 }
    try await awaitEventually("the suite is closed") { weakly == nil }
    // A close in a handler does not wait for itself either.
    let third = try Defaults(at: ground.path)
    third.watch(\.steps) { defaults, _ in
      defaults.close()
      gone.append(false)
    }
    ground.defaults.steps = 4
    await gone.wait { !$0 }
    #expect(throws: (any Error).self) { try third.value(Int.self, forKey: "steps") }
    #expect(ground.defaults.steps == 4)
  }
}

private final class Holder: Sendable {
  private let value: Mutex<Defaults?>
  init(_ defaults: Defaults) { value = Mutex(defaults) }
  var defaults: Defaults? {
    get { value.withLock { $0 } }
    set {
      let old = value.withLock { value in
        defer { value = newValue }
        return value
      }
      withExtendedLifetime(old) {}
    }
  }
}
