// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderLMDB
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

/// Several processes with one environment; some of them are killed or stopped.
@Suite(.timeLimit(.minutes(60))) struct EnvironmentProcessTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  var path: String { directory.path }

  func peer(_ options: String = "") throws -> ChildProcess {
    let peer = try TestExecutable.peer.start()
    let answer = try peer.ask("lmdb open \(path) \(options)")
    try #require(answer == "opened", "\(answer)")
    return peer
  }

  func dismiss(_ peers: ChildProcess...) throws {
    for peer in peers {
      try peer.send("exit")
      #expect(try peer.wait().isSuccess)
    }
  }

  /// Waits on a separate thread: Swift's pool has few.
  func waiting<R: Sendable>(_ body: @escaping @Sendable () throws -> R) throws -> R {
    try JoinableThread { Result { try body() } }.join().get()
  }

  func open(_ options: EnvironmentOptions = .init()) throws -> (Environment, Table) {
    let environment = try Environment(at: path, options)
    return (environment, try environment.table("words"))
  }

  @Test func `What one process commits, the next read of another sees`() throws {
    let (first, second) = (try peer(), try peer())
    for number in 0..<200 {
      let (writer, reader) = number % 2 == 0 ? (first, second) : (second, first)
      #expect(try writer.ask("lmdb put k \(number)") == "ok")
      #expect(try reader.ask("lmdb get k") == "value \(number)")
    }
    try dismiss(first, second)
  }

  @Test func `Two processes that add to one number lose no step`() throws {
    let (first, second) = (try peer("ondemand"), try peer("ondemand"))
    try first.send("lmdb add n 3000")
    try second.send("lmdb add n 3000")
    #expect(try first.nextLine() == "ok")
    #expect(try second.nextLine() == "ok")
    #expect(try first.ask("lmdb get n") == "value 6000")
    try dismiss(first, second)
  }

  @Test func `A process killed inside a write leaves nothing of it and blocks no process`()
    throws
  {
    let (first, second) = (try peer(), try peer())
    #expect(try first.ask("lmdb put a before") == "ok")
    #expect(try first.ask("lmdb hold") == "holding")
    try second.send("lmdb put b after")
    // It queues after the process that holds the lock.
    #expect(throws: ChildProcessError.self) { try second.nextLine(deadline: .milliseconds(200)) }
    first.kill()
    #expect(try second.nextLine() == "ok")
    #expect(try second.ask("lmdb get held") == "none")
    #expect(try second.ask("lmdb get a") == "value before")
    try dismiss(second)
    #expect(try first.wait() == .killed)
    #expect(try Environment.verify(at: path).isSound)
  }

  @Test func `Processes killed at any moment of writing lose nothing they acknowledged`() throws {
    let seed = Seed.announce()
    var random = seed.generator()
    var acknowledged = Set<Int>()
    var kills = 0
    for round in 0..<12 {
      let peers = [try peer("ondemand"), try peer("ondemand")]
      for (index, peer) in peers.enumerated() {
        try peer.send("lmdb write \((2 * round + index) * 1_000_000) 0")
      }
      // After this number of commits, at any point.
      for peer in peers {
        let count = Int.random(in: 1...150, using: &random)
        for _ in 0..<count { acknowledged.insert(try number(peer.nextLine())) }
        peer.kill()
        kills += 1
        for line in try peer.remainingLines() where line.hasPrefix("ack ") {
          acknowledged.insert(try number(line))
        }
        #expect(try peer.wait() == .killed)
      }
    }
    let (environment, table) = try open(.init(durability: .onDemand))
    for number in acknowledged {
      let value = try environment.withReadTransaction {
        try $0.bytes(forKey: "\(number)", in: table)
      }
      #expect(value == Array("v\(number)".utf8), "\(number), \(seed)")
    }
    #expect(kills == 24 && acknowledged.count > 100)
    #expect(try environment.verify().isSound)
  }

  private func number(_ line: String) throws -> Int {
    try #require(line.hasPrefix("ack ") ? Int(line.dropFirst(4)) : nil, "\(line)")
  }

  @Test func `Processes killed while they open and close lose nothing acknowledged`() throws {
    let seed = Seed.announce()
    var random = seed.generator()
    var acknowledged = Set<Int>()
    // They open, commit and close, over and over, and are killed anywhere in that.
    let keeper = try peer("ondemand map=67108864")
    _ = try keeper.ask("lmdb put kept yes")
    #expect(try keeper.ask("lmdb close") == "ok")
    // Three at a time: one that is killed between its waking and its taking of LMDB's lock takes the
    // wake-up of another with it.
    for round in 0..<60 {
      let peers = try (0..<3).map { _ in try TestExecutable.peer.start() }
      for (index, peer) in peers.enumerated() {
        try peer.send("lmdb cycle \(path) \((3 * round + index) * 10_000) 0")
      }
      for peer in peers {
        let count = Int.random(in: 0...6, using: &random)
        for _ in 0..<count { acknowledged.insert(try number(peer.nextLine())) }
        let pause = UInt64.random(in: 0...3_000_000, using: &random)
        let end = Clocks.monotonicNanoseconds() + pause
        while Clocks.monotonicNanoseconds() < end { OSThread.yield() }
        peer.kill()
      }
      for peer in peers {
        for line in try peer.remainingLines() where !line.isEmpty {
          acknowledged.insert(try number(line))
        }
        #expect(try peer.wait() == .killed)
      }
    }
    try dismiss(keeper)
    let (environment, table) = try open()
    for number in acknowledged {
      let value = try environment.withReadTransaction {
        try $0.bytes(forKey: "\(number)", in: table)
      }
      #expect(value == Array("v\(number)".utf8), "\(number), \(seed)")
    }
    #expect(try environment.withReadTransaction { try $0.contains(key: "kept", in: table) })
    #expect(try environment.verify().isSound)
    #expect(acknowledged.count > 50, "\(acknowledged.count)")
  }

  @Test func `A held gate delays opening until its holder exits`() throws {
    let holder = try TestExecutable.peer.start()
    #expect(try holder.ask("lmdb gate \(path)") == "gated")
    #expect(code { _ = try open(.init(openTimeout: .milliseconds(50))) } == .openTimeout)
    let path = path
    let opener = JoinableThread {
      code { _ = try Environment(at: path, .init(openTimeout: .seconds(600))) }
    }
    holder.kill()
    #expect(try holder.wait() == .killed)
    #expect(opener.join() == nil)
  }

  @Test func `A held gate makes closing time out, and a later close succeeds`() throws {
    let (environment, table) = try open(.init(openTimeout: .milliseconds(50)))
    let holder = try TestExecutable.peer.start()
    #expect(try holder.ask("lmdb gate \(path)") == "gated")
    #expect(code { try environment.close() } == .openTimeout)
    // It is open still.
    try environment.withWriteTransaction { try $0.put("1", forKey: "a", in: table) }
    #expect(try holder.ask("go on") == "ok")
    try environment.close()
    // A last reference released during that time leaves the close to the next opener.
    do {
      let (second, _) = try open(.init(openTimeout: .milliseconds(50)))
      #expect(try holder.ask("lmdb gate \(path)") == "gated")
      _ = consume second
    }
    #expect(try holder.ask("go on") == "ok")
    let (third, words) = try open()
    #expect(try third.withReadTransaction { try $0.contains(key: "a", in: words) })
    try dismiss(holder)
  }

  @Test func `A reader that was killed is cleared, one that is stopped is listed`() throws {
    let (environment, table) = try open(.init(durability: .onDemand))
    let reader = try peer("ondemand")
    #expect(try reader.ask("lmdb pin") == "pinned")
    let pinned = try #require(try environment.readers().compactMap(\.transaction).max())
    for number in 0..<50 {
      try environment.withWriteTransaction { try $0.put("\(number)", forKey: "k", in: table) }
    }
    let held = try environment.readers().filter { $0.pid != ProcessIdentity.pid }
    #expect(held.map(\.transaction) == [pinned])
    #expect(try environment.information().lastTransaction >= pinned + 50)
    reader.kill()
    #expect(try reader.wait() == .killed)
    #expect(try environment.clearDeadReaders() == 1)
    #expect(try environment.readers().allSatisfy { $0.pid == ProcessIdentity.pid })
  }

  @Test func `Openers have to agree with those inside`() throws {
    let peer = try peer("map=16777216")
    #expect(code { _ = try open(.init(durability: .onDemand)) } == .inUse)
    #expect(code { _ = try open(.init(mapSize: 1 << 25)) } == .inUse)
    #expect(code { _ = try Environment.verify(at: path) } == .inUse)
    do {
      let (environment, table) = try open(.init(mapSize: 1 << 22))
      #expect(try environment.information().mapSize == 1 << 24)
      try environment.withWriteTransaction { try $0.put("1", forKey: "a", in: table) }
      #expect(try environment.verify().isSound)
    }
    #expect(try peer.ask("lmdb get a") == "value 1")
    // Its gate is damaged: no process joins until the present ones have left.
    let gate = try TestFiles.contents(of: path + "/gate")
    try TestFiles.overwrite([0, 0], at: 24, in: path + "/gate")
    try TestFiles.overwrite([9], at: 20, in: path + "/gate")
    #expect(code { _ = try open() } == .damaged)
    try TestFiles.overwrite(gate, at: 0, in: path + "/gate")
    try open().0.close()
    // Another PID namespace.
    var record = gate
    record.store(UInt64(77), at: 16)
    record.store(XXH64.hash(Array(record.prefix(72))), at: 72)
    try TestFiles.overwrite(record, at: 0, in: path + "/gate")
    #expect(code { _ = try open() } == .pidNamespaceMismatch)
    try dismiss(peer)
    try open().0.close()
  }

  @Test func `A program without the gate keeps those with it out`() throws {
    try open().0.close()
    do {
      let raw = try waiting { [path] in
        // In a separate process: LMDB's locks belong to processes.
        let peer = try TestExecutable.peer.start()
        let answer = try peer.ask("lmdb raw \(path)")
        try #require(answer == "raw", "\(answer)")
        return peer
      }
      #expect(code { _ = try open() } == .inUse)
      try dismiss(raw)
    }
    try open().0.close()
  }

  #if os(Linux)
  @Test func `A forked child gets an error from every use, and its parent is not harmed`() throws {
    let forker = try peer()
    let other = try peer()
    #expect(try forker.ask("lmdb put a 1") == "ok")
    let codes = try forker.ask("lmdb fork")
    #expect(codes == "forked -5 -5 -5 -5 -5 -5")
    // The child lives on with all it inherited; locks of its parent do not.
    #expect(try other.ask("lmdb put b 2") == "ok")
    forker.kill()
    #expect(try forker.wait() == .killed)
    #expect(try other.ask("lmdb put c 3") == "ok")
    #expect(try other.ask("lmdb close") == "ok")
    let (environment, table) = try open()
    #expect(try environment.withReadTransaction { try $0.contains(key: "c", in: table) })
    try dismiss(other)
  }
  #endif
}
