// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

extension StoreFixture {
  fileprivate var copies: [String] {
    TestFiles.names(in: store.core.directory.root).filter { $0.hasSuffix(".copy") }
  }

  /// Whether no process opens, closes or replaces the store.
  private var isGateFree: Bool {
    get throws {
      let gate = try OwnedFile(path: store.core.directory.gate, creation: .createIfMissing)
      guard try gate.tryExclusiveLock() else { return false }
      gate.unlock()
      return true
    }
  }

  /// Stops a peer inside the copy of a compaction.
  ///
  /// - Returns: The peer; `nil` if the copy was complete before the signal came, each time, in a build without
  ///   fault points.
  fileprivate func stoppedCopier(_ option: String) throws -> ChildProcess? {
    for _ in 0..<20 {
      let copier = try peer(option)
      let before = try store.statistics().generation
      try copier.send("compact")
      var answer: String?
      while copies.isEmpty, answer == nil, copier.exitStatus == nil {
        answer = try? copier.nextLine(deadline: .zero)
      }
      try copier.stop()
      if answer == nil, !copies.isEmpty, try store.statistics().generation == before, try isGateFree
      {
        return copier
      }
      copier.continue()
      #expect(try answer ?? copier.nextLine() == "ok")
      try copier.dismiss()
    }
    // On a busy machine the signal may come too late each time; a fault comes in time.
    guard hasFaults else { return nil }
    let copier = try peer(option, environment: ["LARDER_FAULTS": "copyWritten:stop@1"])
    try copier.send("compact")
    try copier.waitUntilStopped()
    return copier
  }

  fileprivate func fill() throws {
    let value = [UInt8](repeating: 7, count: 1 << 20)
    for key in 0..<60 { try store.setBytes(value, forKey: key, in: "large") }
    try numbers.setValue("first", forKey: 1)
  }
}

extension ProcessStorms {
  @Test(.timeLimit(.minutes(60)), arguments: Durability.allCases)
  func `Processes open the store while another one copies it, and what they commit is kept`(
    durability: Durability
  ) throws {
    let ground = try StoreFixture(StoreOptions(durability: durability))
    let option = durability == .cache ? "" : "\(durability)"
    try ground.fill()
    let copier = try #require(try ground.stoppedCopier(option))
    let number = try ground.store.statistics().generation
    let newcomer = try TestExecutable.peer.start()
    #expect(
      try newcomer.ask("open \(ground.path) \(option) wait=600000")
        == "opened \(number)")
    #expect(try newcomer.ask("get 1") == "value first")
    // Their opening does not remove the copy of a process that lives.
    #expect(ground.copies == ["g-\(number + 1).copy"])
    try newcomer.send("set 1 second")
    copier.continue()
    try copier.expect("ok")
    try newcomer.expect("ok")
    #expect(try newcomer.ask("get 1") == "value second")
    #expect(ground.numbers[1] == "second")
    #expect(try ground.store.statistics().generation == number + 1)
    #expect(ground.copies == [])
    #expect(try ground.store.verify() == [])
    for peer in [copier, newcomer] { try peer.dismiss() }
  }

  @Test(.timeLimit(.minutes(60)), arguments: Durability.allCases)
  func `A process killed while it copies leaves the old generation, and its copy is removed`(
    durability: Durability
  ) throws {
    let ground = try StoreFixture(StoreOptions(durability: durability))
    let option = durability == .cache ? "" : "\(durability)"
    try ground.fill()
    let copier = try #require(try ground.stoppedCopier(option))
    let number = try ground.store.statistics().generation
    copier.kill()
    #expect(try copier.wait() == .signalled(9))
    try ground.numbers.setValue("second", forKey: 1)
    #expect(ground.copies.count == 1)
    let newcomer = try ground.peer(option)
    #expect(ground.copies == [])
    #expect(try newcomer.ask("get 1") == "value second")
    #expect(try ground.store.statistics().generation == number)
    try ground.store.compact()
    #expect(try newcomer.ask("get 1") == "value second")
    #expect(try ground.store.verify() == [])
    try newcomer.dismiss()
  }

  #if os(Linux)
  @Test(.timeLimit(.minutes(60)))
  func `An opener that waits in vain names the process that holds the open lock`() throws {
    let ground = try StoreFixture()
    let gate = ground.store.core.directory.gate
    ground.store.close()
    let file = try OwnedFile(path: gate, creation: .createIfMissing)
    #expect(try file.tryExclusiveLock())
    let peer = try TestExecutable.peer.start()
    let answer = try peer.ask("open \(ground.path) wait=100")
    #expect(answer.hasPrefix("error openTimeout \(ProcessIdentity.pid) "), "\(answer)")
    #expect(answer.contains("Process \(ProcessIdentity.pid) has been opening"))
    file.unlock()
    #expect(try peer.ask("open \(ground.path)").hasPrefix("opened "))
    try peer.dismiss()
  }
  #endif
}
