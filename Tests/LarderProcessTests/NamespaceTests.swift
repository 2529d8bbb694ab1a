// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTestSupport
import LarderTesting
import Testing

/// Whether this process may create PID namespaces.
let canUnshare: Bool = {
  let outcome = try? ChildProcess.run("unshare", ["--pid", "--fork", "true"])
  return outcome?.status.isSuccess ?? false
}()
let needsNamespaces: Comment = "PID namespaces cannot be created here (root on Linux can)"

/// A PID namespace, which ends with its first process.
private struct Container {
  let first: ChildProcess

  init() throws {
    first = try ChildProcess(
      "unshare", ["--pid", "--fork", "--kill-child", TestExecutable.peer.path])
  }

  /// Starts another process in the namespace.
  func another() throws -> ChildProcess {
    try ChildProcess(
      "nsenter",
      [
        "--pid=/proc/\(first.processIdentifier)/ns/pid_for_children", TestExecutable.peer.path,
      ])
  }
}

extension StoreFixture {
  /// The directories of separate stores next to the main one.
  fileprivate var separateStores: [String] {
    TestFiles.names(in: path + "/v1").filter { $0.hasPrefix("ns-") }
  }
}

extension Processes {
  @Test(
    .enabled(if: canUnshare, needsNamespaces), .timeLimit(.minutes(60)),
    arguments: [Durability.durable, .relaxed])
  func `A durable or relaxed store refuses another PID namespace while it is open`(
    durability: Durability
  ) throws {
    let ground = try StoreFixture(StoreOptions(durability: durability))
    try ground.numbers.setValue("ours", forKey: 1)
    let container = try Container()
    let answer = try container.first.ask("open \(ground.path) \(durability)")
    #expect(answer.hasPrefix("error otherNamespace "), "\(answer)")
    #expect(answer.contains("--pid"))
    #expect(TestFiles.names(in: ground.path).filter { $0.hasPrefix("ns-") } == [])
    ground.store.close()
    // One after the other both see everything.
    #expect(try container.first.ask("open \(ground.path) \(durability)").hasPrefix("opened "))
    #expect(try container.first.ask("get 1") == "value ours")
    try container.first.order("set 2 theirs")
    let error = #expect(throws: StoreError.self) {
      try SharedStore(at: ground.path, StoreOptions(durability: durability))
    }
    #expect(error?.code == .otherNamespace)
    try container.first.order("close")
    let again = try SharedStore(at: ground.path, StoreOptions(durability: durability))
    #expect(try PersistentCache<Int, String>(storage: again).value(forKey: 2) == "theirs")
    try container.first.dismiss()
  }

  @Test(.enabled(if: canUnshare, needsNamespaces), .timeLimit(.minutes(60)))
  func `A lock excludes processes of another PID namespace, and a kill there releases it`() throws {
    let ground = try StoreFixture()
    let container = try Container()
    #expect(try container.first.ask("open \(ground.path)").hasPrefix("opened "))
    #expect(ground.separateStores.count == 1)
    #expect(try container.first.ask("lock a").hasPrefix("holding "))
    let lock = ground.store.lock("a")
    let error = #expect(throws: StoreError.self) { try lock.withLock(timeout: .zero) { _ in } }
    // The pid is that of the other namespace: the first process of it.
    #expect(error?.code == .lockTimeout && error?.pid != nil)
    container.first.kill()
    try lock.withLock(timeout: .seconds(600)) { _ in }
  }

  @Test(.enabled(if: canUnshare, needsNamespaces), .timeLimit(.minutes(60)))
  func `Directories of namespaces that have ended are removed by the next opener`() throws {
    let ground = try StoreFixture()
    try ground.numbers.setValue("ours", forKey: 1)
    for round in 0..<4 {
      let container = try Container()
      #expect(try container.first.ask("open \(ground.path)").hasPrefix("opened "))
      #expect(try container.first.ask("get 1") == "none")
      try container.first.order("set 1 round\(round)")
      #expect(ground.separateStores.count == 1)
      if round == 3 {
        try container.first.dismiss()
      } else {
        container.first.kill()
        _ = try container.first.wait()
        // The worker in the container ends after it, and holds its output until then.
        _ = try container.first.remainingLines()
      }
    }
    #expect(ground.numbers[1] == "ours")
    // An opener of the main store removes what is left.
    let peer = try ground.peer()
    #expect(ground.separateStores == [])
    #expect(try peer.ask("get 1") == "value ours")
    try peer.dismiss()
  }

  @Test(.enabled(if: canUnshare, needsNamespaces), .timeLimit(.minutes(60)))
  func `Processes of one namespace share one store, also when the main one is free again`() throws {
    let ground = try StoreFixture()
    let container = try Container()
    #expect(try container.first.ask("open \(ground.path)").hasPrefix("opened "))
    try container.first.order("set 1 theirs")
    ground.store.close()
    let second = try container.another()
    #expect(try second.ask("open \(ground.path)").hasPrefix("opened "))
    #expect(try second.ask("get 1") == "value theirs")
    try second.order("set 1 newer")
    #expect(try container.first.ask("get 1") == "value newer")
    // An opener of this namespace leaves the store that is in use alone.
    let peer = try TestExecutable.peer.start()
    #expect(try peer.ask("open \(ground.path)").hasPrefix("opened "))
    #expect(try peer.ask("get 1") == "none")
    #expect(ground.separateStores.count == 1)
    #expect(try second.ask("verify") == "sound")
    for process in [second, container.first, peer] { try process.dismiss() }
  }

  @Test(.enabled(if: canUnshare, needsNamespaces), .timeLimit(.minutes(60)))
  func `A store that is not open belongs to the namespace of its next opener`() throws {
    let ground = try StoreFixture()
    ground.store.close()
    let container = try Container()
    #expect(try container.first.ask("open \(ground.path)").hasPrefix("opened "))
    try container.first.order("set 1 theirs")
    // The shared table was created in this namespace, and is used from the other one now.
    let peer = try TestExecutable.peer.start()
    #expect(try peer.ask("open \(ground.path)").hasPrefix("opened "))
    #expect(try peer.ask("get 1") == "none")
    let second = try container.another()
    #expect(try second.ask("open \(ground.path)").hasPrefix("opened "))
    #expect(try second.ask("get 1") == "value theirs")
    for process in [second, container.first, peer] { try process.dismiss() }
  }
}
