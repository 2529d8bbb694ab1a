// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderEngine
import LarderTestSupport
import LarderTesting
import Testing

let isRoot = getuid() == 0
let needsRoot: Comment = "only root can run a process as another user"

/// A user without rights, and directories that this user may rename.
private struct Attack {
  static let user = 65_534
  let directory: TemporaryDirectory
  let parent: String
  var target: String { parent + "/store" }
  var bait: String { parent + "/bait" }

  /// Makes a parent directory with a mode and an owner, and in it two stores.
  init(mode: Int, owner: Int = 0, durability: Durability) throws {
    directory = try TemporaryDirectory()
    try TestFiles.setMode(0o755, of: directory.path)
    parent = directory.appending("parent")
    try TestFiles.makeDirectory(parent)
    for path in [target, bait] {
      let store = try SharedStore(at: path, .init(durability: durability))
      try store.setBytes([path == target ? 1 : 2], forKey: "k")
      store.close()
    }
    try run("/bin/chown", "-R", "\(Attack.user)", bait)
    try run("/bin/chown", "\(owner)", parent)
    try TestFiles.setMode(mode, of: parent)
  }

  /// Opens the store many times while the attacker exchanges it with the bait.
  ///
  /// - Returns: What was read, and the errors.
  func read(
    _ rounds: Int, durability: Durability
  ) throws -> (values: [[UInt8]], errors: [StoreError]) {
    var (values, errors): ([[UInt8]], [StoreError]) = ([], [])
    for _ in 0..<rounds {
      do {
        let store = try SharedStore(at: target, .init(durability: durability))
        defer { store.close() }
        if let bytes = try store.bytes(forKey: "k") { values.append(bytes) }
      } catch let error as StoreError {
        errors.append(error)
      }
    }
    return (values, errors)
  }
}

private func run(_ executable: String, _ arguments: String...) throws {
  let outcome = try ChildProcess.run(executable, arguments)
  try #require(outcome.status.isSuccess, "\(executable) \(arguments): \(outcome.standardError)")
}

extension Processes {
  #if os(Linux)
  @Test(
    .enabled(if: isRoot, needsRoot), .timeLimit(.minutes(60)), arguments: [0o777, 0o755],
    [Durability.cache, .durable])
  func `A parent that another user can change is refused, and no value of that user is read`(
    mode: Int, durability: Durability
  ) throws {
    let attack = try Attack(
      mode: mode, owner: mode == 0o777 ? 0 : Attack.user, durability: durability)
    let attacker = try TestExecutable.peer.start()
    #expect(
      try attacker.ask("swap \(attack.target) \(attack.bait) \(Attack.user)") == "swapping")
    let (values, errors) = try attack.read(300, durability: durability)
    #expect(values == [])
    #expect(errors.count == 300)
    #expect(errors.allSatisfy { $0.code == .directory && $0.message.contains(attack.parent) })
    attacker.kill()
  }

  @Test(.enabled(if: isRoot, needsRoot), .timeLimit(.minutes(60)))
  func `In a sticky directory only the owner can exchange a store`() throws {
    let attack = try Attack(mode: 0o1777, durability: .durable)
    let attacker = try TestExecutable.peer.start()
    let answer = try attacker.ask("swap \(attack.target) \(attack.bait) \(Attack.user)")
    #expect(answer.hasPrefix("error "), "\(answer)")
    let (values, errors) = try attack.read(20, durability: .durable)
    #expect(errors == [])
    #expect(values == Array(repeating: [1], count: 20))
    attacker.kill()
  }
  #endif
}
