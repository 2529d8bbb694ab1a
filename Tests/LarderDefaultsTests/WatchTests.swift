// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderDefaults
import LarderTesting
import Testing

class Base: PropertyWatchable {
  @Watched var name = "base"
  @Watched var count = 0
  @Watched var usesCount = false
  var upper: String { name.uppercased() }
  var either: Int { usesCount ? count : -1 }
  var stored = 1
}

final class Sub: Base {
  @Watched var extra: String?
  weak var other: Base?
  var both: String { "\(name)\(extra ?? "")\(other?.name ?? "")" }
}

// Sendable: its one property is whole on any thread.
final class SharedModel: PropertyWatchable, @unchecked Sendable {
  @Watched var number = 0
}

@Suite(.timeLimit(.minutes(60)))
struct WatchTests {
  @Test func `A handler runs for every change, on the changing thread, before the assignment ends`()
  {
    let object = Base()
    var heard: [String] = []
    var times = 0
    object.watch(\.name) { object, change in
      heard.append(change.newValue ?? "-")
      #expect(object.name == change.newValue)
      #expect(change.oldValue == nil)
    }
    object.watch(\.name) { times += 1 }
    object.name = "one"
    #expect(heard == ["one"])
    object.name = "one"
    object.name += "!"
    object.count = 3
    #expect(heard == ["one", "one", "one!"])
    #expect(times == 3)
  }

  @Test func `The options give the initial value, the old one and the moment before`() {
    let object = Base()
    var heard: [String] = []
    object.watch(\.count, options: [.initial, .new, .old, .prior]) { object, change in
      let old = change.oldValue.map { "\($0)" } ?? "nil"
      let new = change.newValue.map { "\($0)" } ?? "nil"
      heard.append("\(change.isPrior ? "before" : "after") \(old) \(new) is \(object.count)")
    }
    object.count = 1
    object.count = 2
    #expect(
      heard == [
        "after nil 0 is 0", "before 0 nil is 0", "after 0 1 is 1", "before 1 nil is 1",
        "after 1 2 is 2",
      ])
    var spelled: NSKeyValueObservingOptions = [.old]
    spelled.insert(.new)
    object.watch(\.name, options: [.initial, .new]) {
      (_: Base, _: NSKeyValueObservedChange<String>) in
    }
    #expect(!spelled.isEmpty)
  }

  @Test func `Inherited properties are watched by the name of either class`() {
    let object = Sub()
    var heard: [String] = []
    object.watch(\.name, id: "sub") { _, change in heard.append("sub " + (change.newValue ?? "")) }
    (object as Base).watch(\.name, id: "base") { _, change in
      heard.append("base " + (change.newValue ?? ""))
    }
    object.name = "x"
    #expect(heard == ["sub x", "base x"])
    #expect(object.watching(by: \.name).map(\.id) == ["sub", "base"])
    #expect((object as Base).unwatch(\.name) == ["sub": true, "base": true])
    object.name = "y"
    #expect(heard.count == 2)
  }

  @Test func `A computed property is reported when anything it reads changes`() {
    let object = Sub()
    let other = Base()
    object.other = other
    var upper: [String] = []
    var both: [String] = []
    object.watch(\.upper) { _, change in upper.append(change.newValue ?? "") }
    object.watch(\.both, options: .old) { _, change in
      both.append("\(change.oldValue ?? "") > \(change.newValue ?? "")")
    }
    object.name = "a"
    object.extra = "b"
    other.name = "c"
    #expect(upper == ["A"])
    #expect(both == ["basebase > abase", "abase > abbase", "abbase > abc"])
  }

  @Test func `A getter that reads other things after a change is followed`() {
    let object = Base()
    var heard: [Int] = []
    object.watch(\.either) { _, change in heard.append(change.newValue ?? 0) }
    object.count = 1
    #expect(heard == [])
    object.usesCount = true
    object.count = 2
    object.usesCount = false
    object.count = 3
    #expect(heard == [1, 2, -1])
  }

  @Test func `A key path that reads nothing watchable is reported`() {
    let object = Base()
    let info = object.watch(\.stored) { Issue.record("it was called") }
    #expect(!info.isWatching)
    object.stored = 2
    #expect(object.watching().isEmpty)
  }

  @Test func `A line that runs again does not add up, and two on one line are two`() {
    let object = Base()
    var times = 0
    for _ in 0..<5 { object.watch(\.count) { times += 1 } }
    object.count = 1
    #expect(times == 1)
    #expect(object.watching().count == 1)
    object.unwatchAll()
    object.watch(\.count) { times += 10 }; object.watch(\.count) { times += 100 }
    object.count = 2
    #expect(times == 111)
    object.watch(\.count, id: "mine") { times += 1000 }
    object.watch(\.count, id: "mine") { times += 2000 }
    object.count = 3
    #expect(times == 2221)
  }

  @Test func `Watches end one by one, by property, by id, by file and all`() {
    let object = Base()
    let other = Base()
    var heard: [String] = []
    func watchAll() {
      heard = []
      object.watch(\.count, id: "a") { heard.append("count a") }
      object.watch(\.count, id: "b") { heard.append("count b") }
      object.watch(\.name, id: "a") { heard.append("name a") }
      object.watch(\.name) { heard.append("name auto") }
      other.watch(\.name, id: "a") { heard.append("other") }
    }
    func touch() -> [String] {
      heard = []
      object.count += 1
      object.name += "x"
      other.name += "x"
      return heard
    }
    watchAll()
    #expect(touch() == ["count a", "count b", "name a", "name auto", "other"])
    #expect(object.watching(by: \.count, id: "b").count == 1)
    #expect(object.watching(id: "a").count == 2)
    #expect(object.unwatch(\.count, forIds: ["a", "z"]) == ["a": true, "z": false])
    #expect(touch() == ["count b", "name a", "name auto", "other"])
    #expect(object.unwatch(forIds: ["a"]) == ["a": true])
    #expect(touch() == ["count b", "name auto", "other"])
    #expect(object.unwatchAllFilePrivate())
    #expect(!object.unwatchAllFilePrivate())
    #expect(touch() == ["count b", "other"])
    #expect(!object.unwatchAllFilePrivate(_file: "Other/File.swift"))
    #expect(object.unwatch(\.count) == ["b": true])
    #expect(touch() == ["other"])
    watchAll()
    object.unwatchAll()
    #expect(touch() == ["other"])
  }

  @Test func `A handler may end its own watch and others`() {
    let object = Base()
    var heard: [String] = []
    object.watch(\.count, id: "once") { object, _ in
      heard.append("once")
      object.unwatch(\.count, forIds: ["once"])
    }
    object.watch(\.count, id: "killer") { object, _ in
      heard.append("killer")
      object.unwatch(forIds: ["victim"])
    }
    object.watch(\.count, id: "victim") { heard.append("victim") }
    object.count = 1
    object.count = 2
    #expect(heard == ["once", "killer", "killer"])
  }

  @Test func `A handler that sets the property is not called for it, others get the newest`() {
    let object = Base()
    var heard: [String] = []
    object.watch(\.count, id: "clamp") { object, change in
      heard.append("clamp \(change.newValue ?? 0)")
      if object.count > 10 { object.count = 10 }
    }
    object.watch(\.count, id: "ping") { object, change in
      heard.append("ping \(change.newValue ?? 0)")
      object.count += 1
    }
    object.count = 50
    // Setting in `clamp` notifies `ping` immediately, which sets again while both run. Then `ping`
    // runs for the first change, and `clamp` does not run any more.
    #expect(heard == ["clamp 50", "ping 10", "ping 11", "clamp 12"])
    #expect(object.count == 10)
    object.watch(\.count, id: "late") { object, _ in
      guard object.watching(id: "later").isEmpty else { return }
      object.watch(\.count, id: "later") { heard.append("later") }
    }
    object.unwatch(\.count, forIds: ["clamp", "ping"])
    heard = []
    object.count = 1
    #expect(heard == [])
    object.count = 2
    #expect(heard == ["later"])
  }

  @Test func `A watch does not keep its object, and ends with it`() {
    let other = Base()
    var calls = 0
    weak var weakly: Sub?
    var info: PropertyWatcherInfo?
    do {
      let object = Sub()
      weakly = object
      object.other = other
      info = object.watch(\.both) { _, _ in calls += 1 }
      object.name = "x"
      other.name = "y"
      #expect(calls == 2)
      #expect(info?.isWatching == true)
    }
    #expect(weakly == nil)
    // The other object still has the watch until its next change.
    other.name = "z"
    #expect(calls == 2)
    #expect(info?.isWatching == false)
    info?.unwatch()
  }

  @Test func `Handlers that capture nothing let an object go at once`() {
    for _ in 0..<100 {
      weak var weakly: Base?
      do {
        let object = Base()
        weakly = object
        object.watch(\.name) { object, _ in object.count += 1 }
        object.name = "x"
        #expect(object.count == 1)
        #expect(object.watching().count == 1)
      }
      #expect(weakly == nil)
    }
  }

  @Test func `Threads may set, watch and unwatch at the same time`() {
    let object = SharedModel()
    let heard = Log<Int>()
    object.watch(\.number, id: "whole") { _, change in heard.append(change.newValue ?? 0) }
    let threads = (1...4).map { index in
      JoinableThread {
        for round in 0..<500 {
          object.number = index * 1000 + round
          object.watch(\.number, id: "own \(index)") { heard.append(-1) }
          object.unwatch(forIds: ["own \(index)"])
        }
      }
    }
    for thread in threads { thread.join() }
    #expect(heard.all.count { $0 >= 0 } == 2000)
    #expect(object.watching().map(\.id) == ["whole"])
    object.number = 7
    #expect(heard.all.last == 7)
  }
}
