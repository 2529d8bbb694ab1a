// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTestSupport
import LarderTesting
import Synchronization
import Testing

/// The files of a store, for tests that damage them.
struct StoreFiles {
  let root: String
  let generation: String

  var current: String { root + "/CURRENT" }
  var state: String { generation + "/state" }
  var table: String { generation + "/shared.table" }
  var lock: String { generation + "/lock.mdb" }
  var data: String { generation + "/data.mdb" }

  /// The files of the store at a path, which has to be valid still.
  init(of path: String) throws {
    let (directory, _) = try #require(StoreDirectory.find(path))
    let number = try #require(try CurrentPointer.read(in: directory))
    root = directory.root
    generation = directory.generation(number)
  }
}

/// The events of a store while a test runs.
final class EventLog: Sendable {
  private let seen = Mutex<[StoreEvent]>([])

  var events: [StoreEvent] { seen.withLock { $0 } }
  func options(_ durability: Durability = .cache) -> StoreOptions {
    StoreOptions(
      durability: durability, onEvent: { event in self.seen.withLock { $0.append(event) } })
  }
  var resetToEmpty: Bool {
    events.contains { if case .resetToEmpty = $0 { true } else { false } }
  }
  /// The number of restorations from checkpoint and log.
  var restored: Int {
    events.count { if case .restored = $0 { true } else { false } }
  }
  var damagedEntries: Int {
    events.count { if case .damagedEntry = $0 { true } else { false } }
  }
}

/// Runs a system tool that must succeed.
func run(_ executable: String, _ arguments: String...) throws {
  let outcome = try ChildProcess.run(executable, arguments)
  #expect(outcome.status.isSuccess, "\(executable) \(arguments): \(outcome.standardError)")
}

extension TemporaryDirectory {
  /// Runs `body` with the path of a separate file system; see ``SmallFileSystem/isAvailable``.
  func withSmallDisk(kilobytes: Int, _ body: (_ path: String) throws -> Void) throws {
    let disk = path + "/disk"
    try TestFiles.makeDirectory(disk)
    try SmallFileSystem.with(kilobytes: kilobytes, at: disk) { try body(disk) }
  }
}
