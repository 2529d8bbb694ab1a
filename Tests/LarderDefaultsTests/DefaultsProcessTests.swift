// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderDefaults
import LarderTestSupport
import LarderTesting
import Testing

/// Tests over several processes, one after the other.
@Suite(.serialized, .timeLimit(.minutes(60)))
struct DefaultsProcessTests {
  /// Defect M14: 281 of 600 survived.
  @Test func `Three processes that write two hundred keys each keep all six hundred`() throws {
    let ground = try StoreFixture()
    let peers = try (0..<3).map { _ in try ground.peer() }
    for (index, peer) in peers.enumerated() { try peer.send("defaults own p\(index)- 200") }
    for peer in peers { try peer.expect("ok") }
    #expect(try ground.defaults.keys().count == 600)
    for peer in 0..<3 {
      for index in 0..<200 {
        #expect(try ground.defaults.value(Int.self, forKey: "p\(peer)-\(index)") == index)
      }
    }
  }

  @Test func `A write is seen by the next read of another process, and a removal`() throws {
    let ground = try StoreFixture()
    let peer = try ground.peer()
    for round in 0..<50 {
      ground.defaults.title = "ours \(round)"
      #expect(try peer.ask("defaults get title") == "value ours \(round)")
      try peer.send("defaults set title theirs \(round)")
      try peer.expect("ok")
      #expect(ground.defaults.title == "theirs \(round)")
      #expect(ground.defaults.title == "theirs \(round)")
      try peer.send("defaults remove title")
      try peer.expect("ok")
      // Absence is kept in memory too, and must not outlive the next write.
      #expect(ground.defaults.title == nil)
      #expect(ground.defaults.title == nil)
    }
    try peer.send("defaults float ratio 0.1")
    try peer.expect("ok")
    #expect(ground.defaults.ratio == 0.1)
    ground.defaults.ratio = 0.3
    #expect(try peer.ask("defaults number ratio") == "value 0.3")
  }

  @Test func `A write is kept though its process is killed right after`() throws {
    let ground = try StoreFixture()
    for round in 0..<5 {
      let peer = try ground.peer()
      try peer.send("defaults set title round \(round)")
      try peer.expect("ok")
      peer.kill()
      _ = try peer.wait()
      #expect(ground.defaults.title == "round \(round)")
    }
  }

  @Test func `Processes that update one number lose no step`() throws {
    let ground = try StoreFixture()
    let peers = try (0..<3).map { _ in try ground.peer() }
    for peer in peers { try peer.send("defaults bump visits 100") }
    for peer in peers { try peer.expect("ok") }
    #expect(try ground.defaults.value(Int.self, forKey: "visits") == 300)
  }

  @Test func `Processes that read a default at the same time all get the stored one`()
    throws
  {
    let ground = try StoreFixture()
    let peers = try (0..<3).map { _ in try ground.peer() }
    for round in 0..<20 {
      for (index, peer) in peers.enumerated() {
        try peer.send("defaults initial key\(round) of \(index)")
      }
      let answers = try peers.map { try $0.nextLine() }
      #expect(Set(answers).count == 1, "\(answers)")
      let stored = try ground.defaults.value(String.self, forKey: "key\(round)")
      #expect(answers.first == "value \(stored ?? "")")
    }
  }

  @Test func `The values of a key are observed from another process`() async throws {
    let ground = try StoreFixture()
    let peer = try ground.peer()
    var values = ground.defaults.values(of: .theme).makeAsyncIterator()
    #expect(try await values.next() == "light")
    try peer.send("defaults set theme dark")
    try peer.expect("ok")
    #expect(try await values.next() == "dark")
    // The same value again is not delivered.
    try peer.send("defaults set theme dark")
    try peer.expect("ok")
    try peer.send("defaults remove theme")
    try peer.expect("ok")
    #expect(try await values.next() == "light")
    try await ground.defaults.setValue(3, forKey: "theme")
    await #expect(throws: DefaultsError.self) { _ = try await values.next() }
  }

  @Test func `Closing ends the values`() async throws {
    let ground = try StoreFixture()
    var values = ground.defaults.values(of: .theme).makeAsyncIterator()
    #expect(try await values.next() == "light")
    ground.defaults.close()
    #expect(try await values.next() == nil)
  }

  @Test func `Watching a default reports changes of other processes and of this one`() async throws
  {
    let ground = try StoreFixture()
    let peer = try ground.peer()
    let heard = Log<String>()
    let info = ground.defaults.watch(\.title, options: [.initial, .old]) { defaults, change in
      #expect(defaults === ground.defaults)
      heard.append("\((change.oldValue ?? nil) ?? "-") \((change.newValue ?? nil) ?? "-")")
    }
    #expect(info.isWatching)
    #expect(heard.all == ["- -"])
    try peer.send("defaults set title one")
    try peer.expect("ok")
    await heard.wait { $0 == "- one" }
    ground.defaults.title = "two"
    await heard.wait { $0 == "one two" }
    // A watch reports a computed property of defaults too.
    let shouts = Log<String>()
    ground.defaults.watch(\.shout) { _, change in shouts.append(change.newValue ?? "-") }
    try peer.send("defaults set title three")
    try peer.expect("ok")
    await shouts.wait { $0 == "THREE!" }
    await heard.wait { $0 == "two three" }
    #expect(ground.defaults.unwatch(\.title).values.allSatisfy { $0 })
    #expect(!info.isWatching)
    ground.defaults.title = "four"
    await shouts.wait { $0 == "FOUR!" }
    #expect(!heard.all.contains("three four"))
  }

  @Test func `Closing ends the watches`() throws {
    let ground = try StoreFixture()
    let info = ground.defaults.watch(\.title) { Issue.record("it was called") }
    #expect(info.isWatching)
    ground.defaults.close()
    #expect(!info.isWatching)
    info.unwatch()
  }

  @Test func `A suite without references is closed though it is watched`() async throws {
    let ground = try StoreFixture()
    let heard = Log<String?>()
    weak var weakly: Defaults?
    do {
      let defaults = try Defaults(at: ground.path)
      weakly = defaults
      defaults.watch(\.title) { _, change in heard.append(change.newValue ?? nil) }
      ground.defaults.title = "one"
      await heard.wait { $0 == "one" }
    }
    // The task may hold it for as long as the handler runs.
    try await awaitEventually("the suite is closed") { weakly == nil }
    #expect(heard.all == ["one"])
  }

  @Test func `Without a path a suite is below the data directory of the user`() throws {
    let directory = try TemporaryDirectory()
    let peer = try TestExecutable.peer.start(environment: ["XDG_DATA_HOME": directory.path])
    let path = try peer.ask("defaults shared")
    #expect(path.hasPrefix(directory.path + "/larder/defaults/"), "\(path)")
    #expect(path.hasSuffix("LarderPeer"), "\(path)")
    try peer.send("defaults set key text")
    try peer.expect("ok")
    #expect(try Defaults(at: path).value(String.self, forKey: "key") == "text")
  }

  @Test func `A suite of UserDefaults is migrated once, by the first process`() throws {
    let ground = try StoreFixture()
    let home = try TemporaryDirectory()
    let environment = ["HOME": home.path, "CFFIXED_USER_HOME": home.path]
    let peers = try (0..<2).map { _ in
      let peer = try TestExecutable.peer.start(environment: environment)
      try peer.send("defaults open \(ground.path)")
      try peer.expect("ok")
      try peer.send("defaults old com.example.old greeting hello")
      try peer.expect("ok")
      return peer
    }
    #expect(try peers[0].ask("defaults migrate com.example.old") == "migrated greeting")
    #expect(try ground.defaults.value(String.self, forKey: "greeting") == "hello")
    try ground.defaults.removeValue(forKey: "greeting")
    #expect(try peers[1].ask("defaults migrate com.example.old") == "done")
    #expect(try !ground.defaults.has("greeting"))
  }
}
