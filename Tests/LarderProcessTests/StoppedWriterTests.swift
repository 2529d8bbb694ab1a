// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

extension Processes {
  @Test(.timeLimit(.minutes(15)))
  func `Writes queued behind a stopped writer fail and name it, and reads go on`() throws {
    let ground = try Ground()
    try ground.numbers.setValue("before", forKey: 1)
    let holder = try ground.peer()
    let others = try (0..<2).map { _ in try ground.peer("timeout=300") }
    #expect(try holder.ask("hold") == "holding")
    try holder.stop()
    let pid = holder.processIdentifier
    // From the first moment on, and again once it is known to hang.
    for round in 0..<2 {
      for other in others { try other.send("set \(10 + round) lost") }
      for other in others {
        let answer = try other.nextLine(deadline: .seconds(10))
        #expect(answer.hasPrefix("error writerStalled \(pid) "), "\(answer)")
      }
      for other in others {
        #expect(try other.ask("get 1", deadline: .seconds(10)) == "value before")
        #expect(try other.ask("count", deadline: .seconds(10)) == "1")
      }
    }
    // Checking is reading.
    #expect(try others[1].ask("verify", deadline: .seconds(10)) == "sound")
    // A compaction is not.
    let answer = try others[1].ask("compact", deadline: .seconds(10))
    #expect(answer.hasPrefix("error writerStalled \(pid) "), "\(answer)")
    // What is written behind waits for as long as it takes, and its own process reads it.
    try others[0].order("behind 20 later", deadline: .seconds(10))
    #expect(try others[0].ask("get 20", deadline: .seconds(10)) == "value later")
    #expect(try others[1].ask("get 20", deadline: .seconds(10)) == "none")
    holder.continue()
    try holder.order("go")
    try others[0].order("sync")
    #expect(ground.numbers[20] == "later")
    // What was refused has not been written after all.
    #expect(ground.numbers[10] == nil && ground.numbers[11] == nil)
    for (index, peer) in (others + [holder]).enumerated() {
      try peer.order("set 1 after \(index)")
      #expect(ground.numbers[1] == "after \(index)")
    }
    #expect(try ground.store.verify() == [])
    for peer in others + [holder] { try peer.dismiss() }
  }

  @Test(.timeLimit(.minutes(15)))
  func `A stopped writer that is killed lets everybody write on`() throws {
    let ground = try Ground()
    let holder = try ground.peer()
    let other = try ground.peer("timeout=20000")
    #expect(try holder.ask("hold") == "holding")
    try holder.stop()
    try other.send("set 1 queued")
    holder.kill()
    try other.expect("ok")
    #expect(ground.numbers[1] == "queued")
    #expect(try ground.store.bytes(forKey: "held") == nil)
    #expect(try ground.store.verify() == [])
    try other.dismiss()
  }

  #if canImport(Glibc)
    @Test(.timeLimit(.minutes(15)))
    func `A wake-up that a stopped and killed writer had taken is made up for`() throws {
      let directory = try TemporaryDirectory()
      let path = directory.appending("store")
      // Not in this process: to look at LMDB's lock file would take its locks away.
      let peers = try (0..<3).map { _ in
        let peer = try PeerExecutable.peer.start()
        try #require(try peer.ask("open \(path) timeout=20000").hasPrefix("opened "))
        return peer
      }
      let (holder, victim, waiter) = (peers[0], peers[1], peers[2])
      for (index, peer) in peers.enumerated() { try peer.order("set \(index) first") }
      let version = path + "/v1"
      let generation = try #require(Files.names(in: version).first { $0.hasPrefix("g-") })
      let file = LockFile("\(version)/\(generation)/lock.mdb")
      #expect(try holder.ask("hold") == "holding")
      try victim.send("set 1 never")
      try #require(try file.waitForWaiter(of: .writer, in: victim))
      try victim.stop()
      // The victim has been woken, so to speak, and somebody was faster: nobody knows of a waiter.
      try file.forgetWaiters(of: .writer)
      try waiter.send("set 2 second")
      try #require(try file.waitForWaiter(of: .writer, in: waiter))
      try file.forgetWaiters(of: .writer)
      try holder.order("go")
      // The one is stopped still, and is killed after.
      try waiter.expect("ok")
      victim.kill()
      #expect(try victim.wait() == .killed)
      try holder.order("set 0 last")
      #expect(try waiter.ask("get 0") == "value last")
      #expect(try waiter.ask("get 1") == "value first")
      #expect(try holder.ask("get 2") == "value second")
      #expect(try waiter.ask("verify") == "sound")
      try holder.dismiss()
      try waiter.dismiss()
    }
  #endif
}
